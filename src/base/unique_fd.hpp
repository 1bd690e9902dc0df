// A file descriptor that one object owns and closes. Its number is 3 or more, always: a program may run with standard
// streams closed, and what is opened next would become one. Then a line of the log, or whatever else the program writes
// to its standard error, would go into a socket, or into the memory that ranks share.
#pragma once

#include <unistd.h>

#include <utility>

namespace plait {

// The same descriptor under another number, which closes on exec, where it has that of a standard stream; else itself.
// -1, and errno, where no other number is to be had: then `descriptor` is closed.
int beyond_standard_streams(int descriptor);

class UniqueFd {
 public:
  UniqueFd() = default;
  // Of what a call gave that opens something: empty, with errno as the call left it, where that has failed. It may get
  // another number at this moment, and no other.
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
