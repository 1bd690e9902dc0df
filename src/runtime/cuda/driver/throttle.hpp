// How long launches are held back for something that is to be done while no call is under way (CallOrder). Not at all
// at first. Then now and then, for longer and longer, as a program that is ahead of its GPU may always have calls under
// way; but for a tenth of the time at most, and never for good, as one of them may wait for what is held back.
#pragma once

#include <algorithm>
#include <chrono>

namespace plait {

class Throttle {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Milliseconds = std::chrono::milliseconds;

  // For the try that begins `now`; 0: not at all.
  Milliseconds for_try(Time now) {
    if (next_ == Time()) next_ = now + kAtFirst;
    if (now < next_) return Milliseconds(0);
    const Milliseconds longest = longest_;
    next_ = now + 10 * longest;
    longest_ = std::min(2 * longest, kLongest);
    return longest;
  }
  // It is done: what is next begins anew.
  void reset() { *this = {}; }

 private:
  static constexpr Milliseconds kAtFirst{200}, kShortest{10}, kLongest{1000};

  Time next_;  // when they may be held back again
  Milliseconds longest_ = kShortest;
};

}  // namespace plait
