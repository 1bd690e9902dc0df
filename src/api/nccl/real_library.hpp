// The real NCCL: which library it is, and how it was found.
#pragma once

#include <string>

#include "api/nccl/abi_types.h"
#include "base/settings.hpp"

namespace plait::nccl {

class RealLibrary {
 public:
  // Looks for it in this order, and opens it:
  //   1. what PLAIT_NCCL_LIBRARY names, and nothing else where it is set;
  //   2. the one that the program itself is linked with (RTLD_NEXT), or has opened under the name libnccl.so.2;
  //   3. libnccl.so.2 where the loader looks, then in the folders of LD_LIBRARY_PATH and of the system: where the
  //   drop-in
  //      itself has that name, the loader gives nothing else for it.
  // Where there is none, error() says what was tried and what to do. Never throws anything but std::bad_alloc.
  explicit RealLibrary(const Environment& environment);

  bool is_open() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }    // of its file
  const std::string& error() const { return error_; }  // empty where it is open
  int version() const { return version_; }             // 22809 for 2.28.9; 0 where it does not say
  std::string version_text() const;                    // "2.28.9"

  // Null where it has no such function.
  void* find(const char* symbol) const;

 private:
  bool open(const std::string& name, int flags);
  bool take(void* handle, const std::string& name);
  void open_next();
  void open_by_folder(const Environment& environment);

  void* handle_ = nullptr;  // never closed: its threads may outlive this
  std::string path_;
  std::string error_;
  std::string tried_;
  int version_ = 0;
};

}  // namespace plait::nccl
