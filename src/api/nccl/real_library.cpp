// Looking for the real NCCL.
#include "api/nccl/real_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <sstream>

#include "base/error.hpp"

// Tells the drop-in from NCCL, in whatever file it is.
extern "C" __attribute__((visibility("default"))) const int plait_drop_in_version = 1;

namespace plait::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";
constexpr const char* kMark = "plait_drop_in_version";
constexpr const char* kSystemFolders[] = {
#if defined(__x86_64__)
    "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu",
#endif
    "/usr/lib64", "/usr/local/lib", "/usr/local/cuda/lib64", "/usr/lib"};

// The file that an address was loaded from.
std::string file_of(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace

RealLibrary::RealLibrary(const Environment& environment) {
  const std::string named = value_in(environment, "PLAIT_NCCL_LIBRARY");
  if (!named.empty()) {
    open(named, RTLD_NOW | RTLD_LOCAL);
  } else {
    open_next();
    if (!is_open()) open(kName, RTLD_NOW | RTLD_LOCAL);  // the one that is loaded already, where one is
    if (!is_open()) open_by_folder(environment);
  }
  if (!is_open()) {
    error_ = join("there is no NCCL that Plait could pass calls on to (", tried_, "); ",
                  named.empty() ? "name the file of NCCL's libnccl.so.2 in PLAIT_NCCL_LIBRARY, or install NCCL"
                                : "PLAIT_NCCL_LIBRARY must name the file of NCCL's own libnccl.so.2");
  }
}

// Behind this library in the order in which the loader looks symbols up. Where the program has opened NCCL for itself
// alone, as Python does, it is not there.
void RealLibrary::open_next() {
  void* symbol = dlsym(RTLD_NEXT, "ncclGetVersion");
  const std::string file = symbol != nullptr ? file_of(symbol) : "";
  if (!file.empty()) open(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

void RealLibrary::open_by_folder(const Environment& environment) {
  std::istringstream folders(value_in(environment, "LD_LIBRARY_PATH"));
  const auto look_in = [&](const std::string& folder) {
    const std::string file = join(folder, '/', kName);
    if (!is_open() && access(file.c_str(), R_OK) == 0) open(file, RTLD_NOW | RTLD_LOCAL);
  };
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty()) look_in(folder);
  }
  for (const char* folder : kSystemFolders) look_in(folder);
}

bool RealLibrary::open(const std::string& name, int flags) {
  void* handle = dlopen(name.c_str(), flags);
  if (handle != nullptr) return take(handle, name);
  const char* reason = dlerror();
  if ((flags & RTLD_NOLOAD) == 0) tried_ += join(tried_.empty() ? "" : "; ", reason != nullptr ? reason : name);
  return false;
}

bool RealLibrary::take(void* handle, const std::string& name) {
  auto* get_version = reinterpret_cast<ncclResult_t (*)(int*)>(dlsym(handle, "ncclGetVersion"));
  const char* flaw = dlsym(handle, kMark) != nullptr ? " is Plait itself"
                     : get_version == nullptr        ? " has no ncclGetVersion: it is not NCCL"
                                                     : nullptr;
  if (flaw != nullptr) {
    tried_ += join(tried_.empty() ? "" : "; ", name, flaw);
    dlclose(handle);
    return false;
  }
  handle_ = handle;
  path_ = file_of(reinterpret_cast<void*>(get_version));
  if (path_.empty()) path_ = name;
  if (get_version(&version_) != ncclSuccess) version_ = 0;
  return true;
}

std::string RealLibrary::version_text() const {
  return version_ == 0 ? "of unknown version" : join(version_ / 10000, '.', version_ / 100 % 100, '.', version_ % 100);
}

void* RealLibrary::find(const char* symbol) const { return is_open() ? dlsym(handle_, symbol) : nullptr; }

}  // namespace plait::nccl
