// A gate, a fold of what lies in the inputs of all ranks, and a gate, in one launch of a few SMs: loads from other GPUs
// keep a link busy with few CTAs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.hpp"
#include "runtime/cuda/copy_program.hpp"
#include "runtime/cuda/gate_kernel.hpp"

namespace plait {

// Passed to the kernel by value. `to` is the own place of `from`, or none of them; until the second gate nobody uses
// what is written there but the thread that writes it. (Where places are not aligned, neighbours load it and drop it.)
struct GatedFoldLaunch : GatedLaunch {
  ReduceOp op = ReduceOp::kSum;
  int32_t divisor = 0;   // 0: none
  uint32_t sources = 0;  // in the order in which they are combined
  const std::byte* from[kMostDeviceRanks] = {};
  std::byte* to = nullptr;
  uint64_t elements = 0;
};

// Fills `launch` but for its GateEnd, and gives the CTAs that share the work, at most `processors`. inputs[r]: the
// input of rank r, as this rank's GPU addresses it.
unsigned prepare_fold(const DeviceFold& fold, const Call& call, uint64_t agreement,
                      std::span<const std::byte* const> inputs, std::byte* output, int processors,
                      GatedFoldLaunch& launch);

inline constexpr int kGatedFoldThreads = 512;
static_assert(kGatedFoldThreads >= kMostGateLanes * static_cast<int>(kWarpThreads));

// What cudaLaunchKernel takes, with a GatedFoldLaunch and kGatedFoldThreads threads a CTA. `is_aligned`: all places are
// multiples of 16 bytes.
const void* gated_fold_kernel(DataType type, bool is_aligned);
bool is_all_aligned(const GatedFoldLaunch& launch);

}  // namespace plait
