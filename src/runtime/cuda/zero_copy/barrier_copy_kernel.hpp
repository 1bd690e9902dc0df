// A barrier, copies between GPUs, and a barrier, in one launch: where copies are so short that the starts of a copy
// engine would last longer than the copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/cuda/zero_copy/barrier_kernel.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"

namespace plait {

// Passed to the kernel by value. What a rank copies lies in different places: none is read that is written.
struct BarrierCopyLaunch : BetweenBarriersLaunch {
  uint32_t count = 0;  // of copies
  PlacedCopy copies[kMostDeviceRanks];
};

struct BarrierCopyGrid {
  unsigned ctas = 0;  // that share a copy
  unsigned rows = 1;  // copies under way at once
};

// Fills `launch` but for its BarrierEndpoint. agreements[l]: of queue l. sources[r]: what is copied from of rank r, as
// this rank's GPU addresses it. No CTAs where there is nothing to do. `processors`: SMs that may be kept busy.
BarrierCopyGrid prepare_copies(const CopyQueues& copies, std::span<const uint64_t> agreements,
                               std::span<const std::byte* const> sources, std::byte* output, int sm_count,
                               BarrierCopyLaunch& launch);

inline constexpr int kBarrierCopyThreads = 512;
static_assert(kBarrierCopyThreads >= kMostBarrierQueues * static_cast<int>(kWarpThreads));

// What cudaLaunchKernel takes, with a BarrierCopyLaunch, a grid of (CTAs, rows), and kBarrierCopyThreads threads a CTA.
const void* barrier_copy_kernel();

}  // namespace plait
