// A moment after which waiting is over.
#pragma once

#include <algorithm>
#include <chrono>

namespace plait {

class Deadline {
 public:
  // `seconds` from now; more than a year counts as a year, so that the clock's arithmetic cannot overflow.
  static Deadline after(double seconds) {
    const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, 365.0 * 24 * 3600));
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(wait));
  }

  bool passed() const { return Clock::now() >= at_; }

  // 0 once it has passed.
  double seconds_left() const { return std::max(0.0, std::chrono::duration<double>(at_ - Clock::now()).count()); }

  // For poll(2): rounded up, so that a poll which returns nothing has reached the deadline; an hour at most.
  int poll_milliseconds() const { return static_cast<int>(std::min(3600.0, seconds_left()) * 1000 + 0.999); }

  friend bool operator<(const Deadline& a, const Deadline& b) { return a.at_ < b.at_; }

 private:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace plait
