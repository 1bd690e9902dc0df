// Looking for libplait.so.
#include "api/nccl/plait_library.hpp"

#include <dlfcn.h>

#include "base/error.hpp"

namespace plait::nccl {
namespace {

constexpr const char* kPlait = "libplait.so";

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash);
}

// The structures of the C interface are those of one minor version.
bool is_same_minor(int version) { return version / 100 == PLAIT_VERSION_CODE / 100; }

}  // namespace

PlaitLibrary::PlaitLibrary(const Environment& environment, const std::string& own_path) {
  const std::string named = value_in(environment, "PLAIT_LIBRARY");
  void* handle = nullptr;
  if (!named.empty()) {
    handle = open(named);
  } else {
    const std::string folder = folder_of(own_path);
    // Beside libplait_nccl.so, or one folder up from plait_nccl/libnccl.so.2.
    for (const std::string& name : {join(folder, '/', kPlait), join(folder, "/../", kPlait), std::string(kPlait)}) {
      if (handle == nullptr) handle = open(name);
    }
  }
  if (handle == nullptr) {
    error_ = join("there is no libplait.so (", tried_, "); name its file in PLAIT_LIBRARY");
    return;
  }
  find_calls(handle);
}

// Its own symbols are hidden but for the C interface, so it needs no RTLD_DEEPBIND, which would part it from a malloc
// that the program has preloaded.
void* PlaitLibrary::open(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) {
    path_ = name;
    return handle;
  }
  const char* reason = dlerror();
  tried_ += join(tried_.empty() ? "" : "; ", reason != nullptr ? reason : name);
  return nullptr;
}

void PlaitLibrary::find_calls(void* handle) {
  const char* missing = nullptr;
#define PLAIT_NCCL_FIND(name)                                            \
  name = reinterpret_cast<decltype(name)>(dlsym(handle, "plait" #name)); \
  if (name == nullptr && missing == nullptr) missing = "plait" #name;
  PLAIT_NCCL_CALLS(PLAIT_NCCL_FIND)
#undef PLAIT_NCCL_FIND
  Dl_info info{};
  const bool is_known = GetVersion != nullptr && dladdr(reinterpret_cast<void*>(GetVersion), &info) != 0;
  if (is_known && info.dli_fname != nullptr) path_ = info.dli_fname;
  if (missing != nullptr) {
    error_ = join(path_, " has no ", missing, ": it is not Plait, or another version of it");
  } else if (GetVersion(&version_) != plaitSuccess || !is_same_minor(version_)) {
    error_ = join(path_, " is version ", version_ / 10000, '.', version_ / 100 % 100, " of Plait, and the drop-in ",
                  PLAIT_MAJOR, '.', PLAIT_MINOR, "; install both from one release");
  }
}

}  // namespace plait::nccl
