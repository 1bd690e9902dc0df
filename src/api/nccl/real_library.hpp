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
  //   2. the one that the program has loaded: behind the drop-in (RTLD_NEXT), or anywhere else;
  //   3. where the loader would have found it for what is linked with NCCL, had the drop-in not its name: DT_RPATH,
  //      LD_LIBRARY_PATH, DT_RUNPATH, the loader's cache, the system's folders;
  //   4. in the wheel beside Plait's, and where any loaded library looks for others.
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
  void note(const std::string& failure);  // once
  void open_next();
  void open_loaded();
  void open_where_needed(const Environment& environment);
  void open_of_system();
  void open_elsewhere();
  void look_in(const std::string& folder);

  void* handle_ = nullptr;  // never closed: its threads may outlive this
  std::string path_;
  std::string error_;
  std::string tried_;
  int version_ = 0;
};

}  // namespace plait::nccl
