// A barrier, a reduce of what lies in the inputs of all ranks, and a barrier, in one launch of a few SMs: loads from
// other GPUs keep a link busy with few CTAs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/reductions.hpp"
#include "runtime/cuda/zero_copy/barrier_kernel.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"

namespace plait {

// Passed to the kernel by value. `to` is the own place of `from`, or none of them; until the second barrier nobody uses
// what is written there but the thread that writes it. (Where places are not aligned, neighbours load it and drop it.)
struct BarrierReduceLaunch : BetweenBarriersLaunch {
  ReduceOp op = ReduceOp::kSum;
  int32_t divisor = 0;   // 0: none
  uint32_t sources = 0;  // in the order in which they are combined
  const std::byte* from[kMostDeviceRanks] = {};
  std::byte* to = nullptr;
  uint64_t elements = 0;
};

// Fills `launch` but for its BarrierEndpoint, and gives the CTAs that share the work, at most `processors`. inputs[r]:
// the input of rank r, as this rank's GPU addresses it.
unsigned prepare_reduce(const DeviceReduce& reduce, const Call& call, uint64_t agreement,
                        std::span<const std::byte* const> inputs, std::byte* output, int processors,
                        BarrierReduceLaunch& launch);

inline constexpr int kBarrierReduceThreads = 512;
static_assert(kBarrierReduceThreads >= kMostBarrierQueues * static_cast<int>(kWarpThreads));

// What cudaLaunchKernel takes, with a BarrierReduceLaunch and kBarrierReduceThreads threads a CTA. `is_aligned`: all
// places are multiples of 16 bytes.
const void* barrier_reduce_kernel(DataType type, bool is_aligned);
bool is_all_aligned(const BarrierReduceLaunch& launch);

}  // namespace plait
