// Limits of the runtimes: the tuner chooses among plans within them.
#pragma once

#include <algorithm>

#include "base/settings.hpp"
#include "runtime/message_layout.hpp"
#include "tuner/candidates.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// Signals of a rank of the host runtime, and epoch parity: enough for flat plans over 64 ranks and chains of 500
// chunks.
inline constexpr int kHostSignals = 512;

// Staging memory of a rank and epoch parity.
inline size_t host_scratch_bytes(const Settings& settings) {
  return std::max<size_t>(settings.scratch_bytes / 2, 4096);
}

// Limits of the host runtime.
inline PlanLimits host_plan_limits(const Settings& settings) {
  PlanLimits limits;
  limits.signals = kHostSignals;
  limits.slots = static_cast<int>(std::min<size_t>(host_scratch_bytes(settings) / kChunkAlignment / 2, 1 << 20));
  return limits;
}

inline constexpr int kMostGpuRanks = 16;

// Limits of plans that the argument of a launch holds (runtime/cuda/kernels/queue_kernel.hpp), where the program of a
// whole slice and that of the last one share it. The tuner chooses among these by itself: no long launch was measured.
inline PlanLimits short_gpu_plan_limits() {
  PlanLimits limits;
  limits.least_queues = 1;
  limits.queues = 3;
  limits.operations = 80;
  limits.places = 160;
  limits.signals = 80;
  limits.host_memory = false;
  limits.messages = false;
  limits.any_engine = false;
  // Memory is used again when all have read it. Stores that nobody reads may still be under way then.
  limits.unread_stores = false;
  return limits;
}

// Limits of all that kernels perform: long plans have their operations in memory of the GPU, and channels of their own.
// Operations and places are counted in 16 bits.
inline PlanLimits gpu_plan_limits() {
  PlanLimits limits = short_gpu_plan_limits();
  limits.queues = kLongQueues;
  limits.operations = 1 << 14;
  limits.places = 1 << 14;
  limits.signals = 1024;
  return limits;
}

}  // namespace plait
