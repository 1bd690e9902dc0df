// The lane loop on a GPU: one kernel launch performs all `sm` lanes of a bound plan.
//
// A lane is a set of CTAs. CTA c of a lane moves part c of every chunk and signals only CTA c of other lanes, so a lane
// is as many independent strands as it has CTAs, and no barrier over the lane is ever needed (NVG-38, NVG-42). The plan
// must therefore be bound chunk by chunk (BindLimits::chunk_by_chunk).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.hpp"
#include "runtime/bound_plan.hpp"

namespace plait {

// One lane as the kernel sees it. All pointers are device pointers.
struct DeviceLane {
  const BoundOperation* operations = nullptr;
  int operation_count = 0;
  const BoundPlace* places = nullptr;
  const uint8_t* source_is_wide = nullptr;
  std::byte* const* bases = nullptr;    // the table of the lane's rank, see bound_plan.hpp
  std::byte* const* signals = nullptr;  // of every rank
  std::byte* own_signals = nullptr;
};

// Why a launch ended early: written by the first CTA that gives up.
struct DeviceFailure {
  uint32_t state = 0;  // 0: none
  int lane = 0;        // index into the launch's lanes
  int cta = 0;
  int operation = 0;  // of the bound lane
  uint64_t expected = 0;
  uint64_t seen = 0;
};

// How a launch is shaped: a plain value, chosen by a stateless function and open to change (NVG-52: few CTAs suffice).
struct LaneLaunchShape {
  int ctas_per_lane = 8;
  int threads_per_cta = 512;
};

struct LaneLaunch {
  const DeviceLane* lanes = nullptr;  // device memory, `lane_count` of them
  int lane_count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint64_t signal_value = 0;         // of this epoch
  uint64_t wait_nanoseconds = 0;     // a CTA that waits longer gives up
  DeviceFailure* failure = nullptr;  // device or mapped host memory
  LaneLaunchShape shape;
};

// Bytes from one signal to the next: a word for each CTA.
inline constexpr size_t signal_stride(const LaneLaunchShape& shape) {
  return (static_cast<size_t>(shape.ctas_per_lane) * sizeof(uint64_t) + 127) / 128 * 128;
}

// Launches on `stream` (a cudaStream_t; null: the default stream). All CTAs must be resident at once, since they wait
// for each other: throws kResources where the GPU cannot hold them. Throws kSystem where the launch fails.
void launch_lanes(const LaneLaunch& launch, void* stream);

}  // namespace plait
