// Kernel: a barrier by itself.
#pragma once

#include "runtime/cuda/zero_copy/barrier.cuh"
#include "runtime/cuda/zero_copy/barrier_kernel.hpp"

namespace plait {

// Each queue has one thread, in a warp of its own, since queues wait for different peers.
__global__ void run_barrier(const __grid_constant__ BarrierLaunch launch) {
  if (threadIdx.x % kWarpThreads != 0) return;
  const BarrierQueue& queue = launch.queues[threadIdx.x / kWarpThreads];
  Barrier barrier(launch, queue);
  if (barrier.pass(queue)) barrier.leave();
}

}  // namespace plait
