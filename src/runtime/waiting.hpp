// How a rank waits. Ranks may outnumber cores, so waiting must leave the core to the peer that everybody waits for.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include "base/settings.hpp"

namespace plait {

// Lets a spinning processor pause once.
inline void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits from hot to cold: it spins, then yields the core with every pause, then sleeps for growing times. To wake a
// sleeper through the kernel costs ten times as much as a yield, so only waits that are long anyway sleep.
class Backoff {
 public:
  // `crowded`: ranks outnumber cores, so spinning would keep the peer from running.
  Backoff(WaitPolicy policy, bool crowded) : policy_(policy), spins_(spins_for(policy, crowded)) {}

  void reset() { looks_ = 0; }

  // True at the last pause that spun: spinning did not help.
  bool has_spun_out() const { return looks_ == spins_ && spins_ > 0; }

  // Pauses once. Returns true now and then: the wait has become long enough to look for an error.
  bool pause() {
    return pause([](long nanoseconds) {
      const timespec duration{0, nanoseconds};
      nanosleep(&duration, nullptr);
    });
  }
  // The same; `sleep` sleeps for at most so many nanoseconds, for whoever may be woken.
  template <class Sleep>
  bool pause(const Sleep& sleep) {
    return pause(sched_yield, sleep);
  }
  template <class Yield, class Sleep>
  bool pause(const Yield& yield, const Sleep& sleep) {
    ++looks_;
    if (looks_ <= spins_) {
      relax_cpu();
      return looks_ % 4096 == 0;
    }
    const int yields = looks_ - spins_;
    if (yields <= kYields && policy_ != WaitPolicy::kSleep) {
      yield();
      return yields % 64 == 0;
    }
    if (policy_ == WaitPolicy::kSpin) {
      looks_ = spins_;  // keep yielding
      return true;
    }
    const int sleeps = policy_ == WaitPolicy::kSleep ? yields : yields - kYields;
    sleep(std::min(kLongestSleep, 20'000L * (1 + sleeps / 4)));
    return true;
  }
  // Sleeps at once, if the policy leaves that open: for a wait whose end wakes the sleeper.
  template <class Sleep>
  bool sleep(const Sleep& sleep) {
    if (policy_ != WaitPolicy::kAuto) return pause(sleep);
    ++looks_;
    sleep(kLongestSleep);
    return looks_ % 16 == 0;
  }

 private:
  static constexpr long kLongestSleep = 1'000'000;
  static constexpr int kYields = 2000;

  static int spins_for(WaitPolicy policy, bool crowded) {
    switch (policy) {
      case WaitPolicy::kSpin:
        return 100'000;
      case WaitPolicy::kYield:
        return 0;
      case WaitPolicy::kSleep:
        return 0;
      case WaitPolicy::kAuto:
        break;
    }
    return crowded ? 0 : 4000;
  }

  WaitPolicy policy_;
  int spins_;
  int looks_ = 0;
};

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Counts how long a rank has waited, by its own polls. A longer gap between two polls counts as kLongestGap: a rank
// that was stopped meanwhile by a shell or a debugger, perhaps together with its peers, could not see them come.
class WaitClock {
 public:
  bool is_running() const { return last_look_ != 0; }
  void reset() { *this = {}; }
  double waited() const { return waited_; }
  // Begins to count anew, for a wait that may take any time so far.
  void hold() {
    waited_ = 0;
    next_examination_ = kSeldomestExamination;
  }

  // Counts the time since the last poll. Returns true when it is time to examine the peers. That is often at first and
  // seldom later: if ranks outnumber cores, the examinations of many ranks would slow down the one that they wait for.
  bool look() {
    const double now = seconds_now();
    if (is_running()) waited_ += std::min(now - last_look_, kLongestGap);
    last_look_ = now;
    if (waited_ < next_examination_) return false;
    next_examination_ = waited_ + std::min(waited_ / 4, kSeldomestExamination);
    return true;
  }

 private:
  static constexpr double kLongestGap = 0.25;
  static constexpr double kSeldomestExamination = 0.02;

  double last_look_ = 0;
  double waited_ = 0;
  double next_examination_ = 0;
};

}  // namespace plait
