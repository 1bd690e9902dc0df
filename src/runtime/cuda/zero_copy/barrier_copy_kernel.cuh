// Kernel: copies between two barriers.
#pragma once

#include "runtime/cuda/device/copy_bytes.cuh"
#include "runtime/cuda/zero_copy/barrier_copy_kernel.hpp"
#include "runtime/cuda/zero_copy/between_barriers.cuh"

namespace plait {

__global__ void __launch_bounds__(kBarrierCopyThreads, 1)
    run_barrier_copy(const __grid_constant__ BarrierCopyLaunch launch) {
  between_barriers<PeersThen::kWrite>(launch, [&launch] {
    constexpr int kAtOnce = 8;  // loads of a thread that are under way at once
    const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    for (unsigned c = blockIdx.y; c < launch.count; c += gridDim.y) {
      const PlacedCopy& copy = launch.copies[c];
      copy_bytes<kAtOnce, PeerSide::kSource>(copy.to, copy.from, copy.bytes, thread, uint64_t{gridDim.x} * blockDim.x);
    }
  });
}

}  // namespace plait
