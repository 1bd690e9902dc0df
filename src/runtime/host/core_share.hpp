// Whether something that does not wait wants the core of a waiting rank.
//
// A rank that yields gets its fair share of the core all the same, and who works beside it gets the rest (Linux from
// 6.6 on). That is half of a core for nothing. A rank that sleeps takes nothing, and runs soon after it is woken. Yet
// to sleep is wrong where the others wait as well: waking takes longer than their turns.
#pragma once

#include <sched.h>

#include <algorithm>

#include "runtime/waiting.hpp"

namespace plait {

class CoreShare {
 public:
  // Yields the core, and notices how long others keep it.
  void yield() {
    const double before = seconds_now();
    sched_yield();
    yielded(before, seconds_now());
  }
  // The times before and after a yield.
  void yielded(double before, double now) {
    now_ = now;
    const double turn = std::min(now - before, kLongestTurnSeconds);
    if (turn > kTurnOfWorkSeconds) wanted_until_ = now + kTurnsToSleep * turn;
  }
  // Tells that the rank has slept. Who sleeps notices nothing, and so it has to yield again after a while.
  void slept(double now) { now_ = now; }
  // As of the last pause.
  bool is_wanted() const { return now_ < wanted_until_; }

 private:
  // Ranks that wait as well pass a core on within microseconds; who works keeps it until the kernel's clock ticks.
  static constexpr double kTurnOfWorkSeconds = 5e-4;
  static constexpr double kLongestTurnSeconds =
      1e-2;  // a longer one was a stop of the whole machine, or of this process
  // To yield until the next turn of work costs about as much time as that turn.
  static constexpr double kTurnsToSleep = 16;

  double now_ = 0;
  double wanted_until_ = 0;
};

}  // namespace plait
