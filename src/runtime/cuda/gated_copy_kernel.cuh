// Copies between two gates.
#pragma once

#include "runtime/cuda/copy_bytes.cuh"
#include "runtime/cuda/gated.cuh"
#include "runtime/cuda/gated_copy_kernel.hpp"

namespace plait {

__global__ void __launch_bounds__(kGatedCopyThreads, 1) run_gated_copy(const __grid_constant__ GatedCopyLaunch launch) {
  between_gates<PeersThen::kWrite>(launch, [&launch] {
    constexpr int kAtOnce = 8;  // loads of a thread that are under way
    const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    for (unsigned c = blockIdx.y; c < launch.count; c += gridDim.y) {
      const PlacedCopy& copy = launch.copies[c];
      copy_bytes<kAtOnce, FarEnd::kSource>(copy.to, copy.from, copy.bytes, thread, uint64_t{gridDim.x} * blockDim.x);
    }
  });
}

}  // namespace plait
