// The watchdog of a rank's kernels, for when nobody waits for them on the host. Its thread polls whether a kernel gave
// up, a rank died or made another call, or the communicator was ended. Then it tells every kernel that still waits, and
// the communicator keeps the reason. It also logs that other ranks are long in making a call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/periodic.hpp"
#include "base/wait_limits.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/lowering/device_block.hpp"
#include "runtime/waiting.hpp"

namespace plait {

class Watchdog {
 public:
  // `reports` are in host memory that the GPU reads and writes.
  Watchdog(CommunicatorState& state, Reports& reports, const WaitLimits& limits);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Ends the communicator if a kernel has given up or ranks have made different calls. Any thread.
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
  // Used by the polling thread only.
  std::optional<uint64_t> awaited_call_;  // a call that other ranks had not made at the last poll
  WaitClock clock_;                       // how long they have been awaited
  LongWait long_wait_;
  const Periodic polling_;  // the last member: its thread uses the others
};

}  // namespace plait
