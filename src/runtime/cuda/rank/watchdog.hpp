// Looks after a rank's kernels while nobody waits for them on the host: a thread that sleeps, and now and then looks
// whether a kernel gave up, a rank died or called something else, or the communicator was ended. Then every kernel that
// still waits is told so, and the communicator keeps the reason. A call that others are long in making is logged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/periodic.hpp"
#include "base/wait_limits.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/memory/device_block.hpp"
#include "runtime/waiting.hpp"

namespace plait {

class Watchdog {
 public:
  // `reports` are in host memory that the GPU reads and writes.
  Watchdog(CommunicatorState& state, Reports& reports, const WaitLimits& limits);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Ends the communicator where a kernel has given up by now, or ranks have made different calls. From any thread.
  void poll_reports();

 private:
  void poll();
  void report_channels();
  void report_messages();
  void report_barriers();
  void time_out(const std::string& what);
  void notice_long_waits();

  CommunicatorState& state_;
  Reports& reports_;
  const WaitLimits limits_;
  // Of the thread that looks:
  std::optional<uint64_t> awaited_call_;  // which others have not made when it looked last,
  WaitClock clock_;                       // for so long
  LongWait long_wait_;
  const Periodic polling_;  // the last to begin, and the first to end
};

}  // namespace plait
