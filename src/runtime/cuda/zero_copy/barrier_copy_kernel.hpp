// A barrier, copies between GPUs, and a second barrier in one launch. It is for copies so short that a copy engine
// would take longer to start than to copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/zero_copy/barrier_kernel.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"

namespace plait {

// The argument of the kernel, passed by value. The copies do not overlap: none reads what another one writes.
struct BarrierCopyLaunch : BetweenBarriersLaunch {
  uint32_t count = 0;  // of copies
  PlacedCopy copies[kMostDeviceRanks];
};

struct BarrierCopyGrid {
  unsigned ctas = 0;  // how many share a copy
  unsigned rows = 1;  // how many copies are under way at once
};

// Fills `launch` except its BarrierEndpoint. agreements[l] belongs to queue l. sources[r] is the buffer that is copied
// from rank r, as this rank's GPU addresses it. `sm_count`: how many SMs may be kept busy. Returns a grid of 0 CTAs if
// there is nothing to do.
BarrierCopyGrid prepare_copies(const CopyQueues& copies, std::span<const uint64_t> agreements,
                               std::span<const std::byte* const> sources, std::byte* output, int sm_count,
                               BarrierCopyLaunch& launch);

inline constexpr int kBarrierCopyThreads = most_threads(KernelFamily::kBarrierCopy);
static_assert(kBarrierCopyThreads >= kMostBarrierQueues * static_cast<int>(kWarpThreads));

// The kernel for cudaLaunchKernel. It takes a BarrierCopyLaunch, a grid of CTAs x rows, and kBarrierCopyThreads threads
// per CTA.
const void* barrier_copy_kernel();

}  // namespace plait
