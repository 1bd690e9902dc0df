// Looks after a rank's kernels while nobody waits for them on the host: a thread that sleeps, and now and then looks
// whether a kernel gave up, a rank died or called something else, or the communicator was ended. Then every kernel that
// still waits is told so, and the communicator keeps the reason.
#pragma once

#include <string>

#include "base/periodic.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/device_block.hpp"

namespace plait {

class KernelWatch {
 public:
  // `reports` are in host memory that the GPU reads and writes.
  KernelWatch(CommunicatorState& state, Reports& reports);
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  // Ends the communicator where a kernel has given up by now, or ranks have made different calls. From any thread.
  void look_at_reports();

 private:
  void look();
  void report_strands();
  void report_messages();
  void report_gates();
  void time_out(const std::string& what);

  CommunicatorState& state_;
  Reports& reports_;
  const Periodic looks_;  // the last to begin, and the first to end
};

}  // namespace plait
