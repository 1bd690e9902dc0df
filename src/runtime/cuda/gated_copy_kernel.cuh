// Copies between two gates.
#pragma once

#include "runtime/cuda/copy_bytes.cuh"
#include "runtime/cuda/gate.cuh"
#include "runtime/cuda/gated_copy_kernel.hpp"

namespace plait {

// Whether this CTA is the last one to come here; all its threads have read what they were to read. Only reads have to
// be over before peers hear of it, for what they want is to write; what was written here, the end of the launch
// completes. So nothing has to be ordered but values that were used before the barrier.
__device__ inline bool arrives_last(uint32_t* arrived) {
  auto* const is_last = machine::shared_array<bool, 1>();
  __syncthreads();
  if (threadIdx.x == 0) {
    *is_last = atomicAdd(arrived, 1) == gridDim.x * gridDim.y - 1;
    if (*is_last) *arrived = 0;
  }
  __syncthreads();
  return *is_last;
}

__global__ void __launch_bounds__(kGatedCopyThreads, 1) run_gated_copy(const __grid_constant__ GatedCopyLaunch launch) {
  const unsigned lane = threadIdx.x / kWarpThreads;
  const bool leads = threadIdx.x % kWarpThreads == 0 && lane < launch.lanes;  // a warp for each lane
  Gate gate(launch, launch.before[leads ? lane : 0]);
  const bool speaks = blockIdx.x == 0 && blockIdx.y == 0;
  if (!__syncthreads_and(!leads || gate.pass(launch.before[lane], speaks))) return;

  constexpr int kAtOnce = 8;  // loads of a thread that are under way
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (unsigned c = blockIdx.y; c < launch.count; c += gridDim.y) {
    const PlacedCopy& copy = launch.copies[c];
    copy_bytes<kAtOnce>(copy.to, copy.from, copy.bytes, thread, uint64_t{gridDim.x} * blockDim.x);
  }

  const GateLane& first = launch.before[0];
  if (!arrives_last(&launch.state->arrived[gate_index(first.way, first.peer)]) || !leads) return;
  if (gate.pass(launch.after[lane])) gate.leave();
}

}  // namespace plait
