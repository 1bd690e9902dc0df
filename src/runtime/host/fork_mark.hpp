// Tells whether this process is the one that made the mark, or a forked child of it. That costs one load of memory,
// since the kernel clears the page for a child.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"

namespace plait {

class ForkMark {
 public:
  ForkMark() : bytes_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* page = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) fail_system(errno, "cannot map a page of memory");
    mark_ = static_cast<int*>(page);
    if (madvise(page, bytes_, MADV_WIPEONFORK) != 0) {  // kernels before 4.14
      munmap(page, bytes_);
      mark_ = nullptr;
      owner_ = getpid();
      return;
    }
    *mark_ = 1;
  }
  ~ForkMark() {
    if (mark_ != nullptr) munmap(mark_, bytes_);
  }
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;

  bool is_in_child() const { return mark_ != nullptr ? *static_cast<volatile int*>(mark_) == 0 : getpid() != owner_; }

 private:
  size_t bytes_;
  int* mark_ = nullptr;
  pid_t owner_ = 0;
};

}  // namespace plait
