// Limits of the waits of ranks for each other: when one fails, and when one is worth a line in the log.
#pragma once

#include <optional>

#include "base/log.hpp"

namespace plait {

// The default is as long as PyTorch lets a collective take. A rank may be busy for minutes with a checkpoint, a
// compiler or a slow disk, and nothing is wrong.
inline constexpr double kDefaultTimeoutSeconds = 600;

// After so long without a word, users begin to wonder.
inline constexpr double kNoticeSeconds = 60;

struct WaitLimits {
  double timeout_seconds = kDefaultTimeoutSeconds;  // a wait that is longer fails
  Logger log;                                       // of waits that have become long, at level warn
  double notice_seconds = kNoticeSeconds;           // when they have
};

// The moments of one wait at which to say so: after the first notice's time, and whenever the wait has doubled since.
class LongWait {
 public:
  explicit LongWait(double notice_seconds = kNoticeSeconds) : first_(notice_seconds), next_(notice_seconds) {}

  // Another wait begins.
  void reset() { next_ = first_; }

  // Returns the seconds to name in the log, once for each of those moments. `waited`: seconds so far.
  std::optional<double> notice(double waited) {
    if (waited < next_) return std::nullopt;
    const double seconds = next_;
    next_ *= 2;
    return seconds;
  }

 private:
  double first_;
  double next_;
};

}  // namespace plait
