// Gates by themselves.
#pragma once

#include "runtime/cuda/gate.cuh"
#include "runtime/cuda/gate_kernel.hpp"

namespace plait {

// One thread for each lane, for it has nothing to share; the lanes of a rank are in different warps, since they wait
// for different peers.
__global__ void run_gate(const __grid_constant__ GateLaunch launch) {
  if (threadIdx.x % kWarpThreads != 0) return;
  const GateLane& lane = launch.lanes[threadIdx.x / kWarpThreads];
  Gate gate(launch, lane);
  if (gate.pass(lane)) gate.leave();
}

}  // namespace plait
