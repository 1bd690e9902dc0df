// How long ranks wait for each other, and when a wait that goes on is worth a line in the log.
#pragma once

#include <optional>

#include "base/log.hpp"

namespace plait {

// Unless told otherwise: as long as PyTorch lets a collective take. A rank may be busy for minutes with a checkpoint, a
// compiler or a slow disk, and nothing is wrong.
inline constexpr double kDefaultTimeoutSeconds = 600;

// Users who have seen nothing for so long begin to wonder.
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

  // How many seconds to say, once for each of those moments. `waited`: seconds so far.
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
