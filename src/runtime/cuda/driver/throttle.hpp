// How long launches are delayed for work that needs a moment without calls under way (CallOrder).
//
// At first they are not delayed at all. Later they are delayed now and then, longer each time, because a program that
// runs ahead of its GPU may always have calls under way. They are delayed for at most a tenth of the time, and never
// without end, because a call under way may wait for one that is delayed.
#pragma once

#include <algorithm>
#include <chrono>

namespace plait {

class Throttle {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  // The longest delay for the attempt that begins `now`; 0: none.
  Milliseconds for_try(Time now) {
    if (next_ == Time()) next_ = now + kAtFirst;
    if (now < next_) return Milliseconds(0);
    const Milliseconds longest = longest_;
    next_ = now + 10 * longest;
    longest_ = std::min(2 * longest, kLongest);
    return longest;
  }
  // After a success: the next work starts over.
  void reset() { *this = {}; }

 private:
  static constexpr Milliseconds kAtFirst{200}, kShortest{10}, kLongest{1000};

  Time next_;  // when launches may be delayed again
  Milliseconds longest_ = kShortest;
};

}  // namespace plait
