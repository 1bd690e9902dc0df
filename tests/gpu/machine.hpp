// What programs whose ranks are processes ask about the machine.
#pragma once

#include "runtime/cuda/driver.hpp"
#include "support/rank_processes.hpp"

namespace plait::test {

// In a child: a process that has used CUDA must not fork ranks.
inline int gpus_of_machine() {
  Shared<int> count;
  RankProcesses(1, [&](int) { *count = cuda_device_count(); }).wait(60);
  return *count;
}

}  // namespace plait::test
