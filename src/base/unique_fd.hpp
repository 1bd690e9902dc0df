// A file descriptor that one object owns and closes. Its number is always 3 or more. A program may run with closed
// standard streams, and the next file that is opened would become one of them. Then a line of the log would go into a
// socket, or into the memory that ranks share.
#pragma once

#include <unistd.h>

#include <utility>

namespace plait {

// Moves a descriptor that has the number of a standard stream to another number, which closes on exec. Others stay as
// they are. If the system gives no other number, closes `descriptor` and returns -1 with errno set.
int beyond_standard_streams(int descriptor);

class UniqueFd {
 public:
  UniqueFd() = default;
  // Takes the result of a call that opens something. Empty, with errno as the call left it, if the call failed. The
  // descriptor may get another number here, and keeps that one.
  explicit UniqueFd(int descriptor) : descriptor_(beyond_standard_streams(descriptor)) {}
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
    const int old = std::exchange(descriptor_, beyond_standard_streams(descriptor));
    // Linux frees the number even where close() is interrupted: never retry, another thread may own it by then.
    if (old >= 0) ::close(old);
  }

 private:
  int descriptor_ = -1;
};

}  // namespace plait
