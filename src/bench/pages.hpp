// Memory of the host for a benchmark's buffers.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {

// Page-aligned memory whose pages exist.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
    void* address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
      fail(ErrorCode::kResources, "cannot get ", counted(bytes_, "byte"), " for the benchmark's buffers");
    address_ = static_cast<std::byte*>(address);
    std::memset(address_, 0, bytes_);
  }
  ~Pages() { munmap(address_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* get() const { return address_; }

 private:
  size_t bytes_;
  std::byte* address_ = nullptr;
};

}  // namespace plait
