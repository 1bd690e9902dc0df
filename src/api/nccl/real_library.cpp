// Looking for the real NCCL.
#include "api/nccl/real_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <sstream>
#include <vector>

#include "api/nccl/loaded_objects.hpp"
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
    if (!is_open()) open_loaded();
    if (!is_open()) open_where_needed(environment);
    if (!is_open()) open_of_system();
    if (!is_open()) open_elsewhere();
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

void RealLibrary::look_in(const std::string& folder) {
  const std::string file = join(folder, '/', kName);
  if (!is_open() && access(file.c_str(), R_OK) == 0) open(file, RTLD_NOW | RTLD_LOCAL);
}

// Under whatever path the program has opened it: by that name the loader may give the drop-in.
void RealLibrary::open_loaded() {
  for (const LoadedObject& object : loaded_objects()) {
    if (!is_open() && object.soname == kName) open(object.path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  }
}

void RealLibrary::open_where_needed(const Environment& environment) {
  const std::vector<LoadedObject> objects = loaded_objects();
  const auto look_for = [&](std::vector<std::string> LoadedObject::* folders) {
    for (const LoadedObject& object : objects) {
      if (!object.needs(kName)) continue;
      for (const std::string& folder : object.*folders) look_in(folder);
    }
  };
  look_for(&LoadedObject::rpath);
  std::istringstream folders(value_in(environment, "LD_LIBRARY_PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty()) look_in(folder);
  }
  look_for(&LoadedObject::runpath);
}

void RealLibrary::open_of_system() {
  open(kName, RTLD_NOW | RTLD_LOCAL);
  const std::string cached = is_open() ? "" : find_in_loader_cache(kName);
  if (!cached.empty()) open(cached, RTLD_NOW | RTLD_LOCAL);
  for (const char* folder : kSystemFolders) look_in(folder);
}

// Programs may open NCCL by a name that the loader looks for where the caller of dlopen says, and wheels of Python
// stand beside each other.
void RealLibrary::open_elsewhere() {
  const std::string own = file_of(reinterpret_cast<void*>(&file_of));
  const std::string folder = own.substr(0, own.rfind('/') + 1);
  for (const char* up : {"../../", "../../../"}) look_in(join(folder, up, "nvidia/nccl/lib"));
  for (const LoadedObject& object : loaded_objects()) {
    for (const auto& folders : {object.rpath, object.runpath}) {
      for (const std::string& each : folders) look_in(each);
    }
  }
}

bool RealLibrary::open(const std::string& name, int flags) {
  void* handle = dlopen(name.c_str(), flags);
  if (handle != nullptr) return take(handle, name);
  const char* reason = dlerror();
  if ((flags & RTLD_NOLOAD) == 0) note(reason != nullptr ? reason : name);
  return false;
}

void RealLibrary::note(const std::string& failure) {
  if (tried_.find(failure) == tried_.npos) tried_ += join(tried_.empty() ? "" : "; ", failure);
}

bool RealLibrary::take(void* handle, const std::string& name) {
  auto* get_version = reinterpret_cast<ncclResult_t (*)(int*)>(dlsym(handle, "ncclGetVersion"));
  const char* flaw = dlsym(handle, kMark) != nullptr ? " is Plait itself"
                     : get_version == nullptr        ? " has no ncclGetVersion: it is not NCCL"
                                                     : nullptr;
  if (flaw != nullptr) {
    note(join(name, flaw));
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
