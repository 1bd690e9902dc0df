// A file descriptor that one object owns and closes.
#pragma once

#include <unistd.h>

#include <utility>

namespace plait {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int descriptor) : descriptor_(descriptor) {}
  UniqueFd(UniqueFd&& other) noexcept : descriptor_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

  // Gives up ownership without closing.
  int release() { return std::exchange(descriptor_, -1); }

  void reset(int descriptor = -1) {
    const int old = std::exchange(descriptor_, descriptor);
    // Linux frees the number even where close() is interrupted: never retry, another thread may own it by then.
    if (old >= 0) ::close(old);
  }

 private:
  int descriptor_ = -1;
};

}  // namespace plait
