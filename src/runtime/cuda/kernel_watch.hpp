// Looks after a rank's kernels while nobody waits for them on the host: a thread that sleeps, and now and then looks
// whether a kernel gave up, a rank died or called something else, or the communicator was ended. Then every kernel that
// still waits is told so, and the communicator keeps the reason.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/communicator_state.hpp"
#include "runtime/cuda/device_block.hpp"

namespace plait {

class KernelWatch {
 public:
  // `reports` are in host memory that the GPU reads and writes.
  KernelWatch(CommunicatorState& state, Reports& reports);
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

 private:
  void look_on();
  void look();
  void report_strands();
  void report_messages();
  void report_gates();

  CommunicatorState& state_;
  Reports& reports_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace plait
