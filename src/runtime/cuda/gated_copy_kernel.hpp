// A gate, copies between GPUs, and a gate, in one launch: where copies are so short that the starts of a copy engine
// would last longer than the copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/cuda/copy_program.hpp"
#include "runtime/cuda/gate_kernel.hpp"

namespace plait {

// Passed to the kernel by value. What a rank copies lies in different places: none is read that is written.
struct GatedCopyLaunch : GatedLaunch {
  uint32_t count = 0;  // of copies
  PlacedCopy copies[kMostDeviceRanks];
};

struct GatedCopyGrid {
  unsigned ctas = 0;  // that share a copy
  unsigned rows = 1;  // copies under way at once
};

// Fills `launch` but for its GateEnd. agreements[l]: of lane l. sources[r]: what is copied from of rank r, as this
// rank's GPU addresses it. No CTAs where there is nothing to do. `processors`: SMs that may be kept busy.
GatedCopyGrid prepare_copies(const CopyLanes& copies, std::span<const uint64_t> agreements,
                             std::span<const std::byte* const> sources, std::byte* output, int processors,
                             GatedCopyLaunch& launch);

inline constexpr int kGatedCopyThreads = 512;
static_assert(kGatedCopyThreads >= kMostGateLanes * static_cast<int>(kWarpThreads));

// What cudaLaunchKernel takes, with a GatedCopyLaunch, a grid of (CTAs, rows), and kGatedCopyThreads threads a CTA.
const void* gated_copy_kernel();

}  // namespace plait
