// A moment after which waiting is over.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

namespace plait {

// Called now and then by whoever waits long; throws to end the wait. For interpreters, which want to hear Ctrl-C.
using InterruptCheck = std::function<void()>;

// Asked now and then in a long wait: whether anybody still wants what it waits for. Only then can it time out.
using WantedCheck = std::function<bool()>;

class Deadline {
 public:
  // `seconds` from now; more than a year counts as a year, so that the clock's arithmetic cannot overflow.
  static Deadline after(double seconds, InterruptCheck check = {}) {
    const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, 365.0 * 24 * 3600));
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(wait), std::move(check));
  }

  bool passed() const { return Clock::now() >= at_; }

  // 0 once it has passed.
  double seconds_left() const { return std::max(0.0, std::chrono::duration<double>(at_ - Clock::now()).count()); }

  // The timeout for poll(2), rounded up: until the deadline, an hour, or the next look for interrupts, whichever is
  // first.
  int poll_milliseconds() const {
    return static_cast<int>(std::min(check_ ? kSecondsBetweenChecks : 3600.0, seconds_left()) * 1000 + 0.999);
  }

  // Call it in the loop around a wait, whenever a pause has brought nothing. Throws what the interrupt check throws.
  void hear_interrupts() const {
    if (check_) check_();
  }

  friend bool operator<(const Deadline& a, const Deadline& b) { return a.at_ < b.at_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kSecondsBetweenChecks = 0.1;
  Deadline(Clock::time_point at, InterruptCheck check) : at_(at), check_(std::move(check)) {}
  Clock::time_point at_;
  InterruptCheck check_;
};

}  // namespace plait
