// A barrier, a reduce of the inputs of all ranks, and a second barrier in one launch. It uses few SMs, since few CTAs
// that load from other GPUs keep a link busy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/reductions.hpp"
#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/zero_copy/barrier_kernel.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"

namespace plait {

// The argument of the kernel, passed by value. `to` is this rank's place of `from`, or overlaps none of them. Until the
// second barrier, only the thread that writes a result there reads that place. (If places are not aligned, neighbours
// load it, too, but do not use the value.)
struct BarrierReduceLaunch : BetweenBarriersLaunch {
  ReduceOp op = ReduceOp::kSum;
  int32_t divisor = 0;   // 0: none
  uint32_t sources = 0;  // how many; combined in the order of `from`
  const std::byte* from[kMostDeviceRanks] = {};
  std::byte* to = nullptr;
  uint64_t elements = 0;
};

// Fills `launch` except its BarrierEndpoint, and returns how many CTAs share the work, at most `sm_count`. inputs[r] is
// the input of rank r, as this rank's GPU addresses it.
unsigned prepare_reduce(const DeviceReduce& reduce, const Call& call, uint64_t agreement,
                        std::span<const std::byte* const> inputs, std::byte* output, int sm_count,
                        BarrierReduceLaunch& launch);

inline constexpr int kBarrierReduceThreads = most_threads(KernelFamily::kBarrierReduce);
static_assert(kBarrierReduceThreads >= kMostBarrierQueues * static_cast<int>(kWarpThreads));

// The kernel for cudaLaunchKernel. It takes a BarrierReduceLaunch and kBarrierReduceThreads threads per CTA.
// `is_aligned`: all places are multiples of 16 bytes.
const void* barrier_reduce_kernel(DataType type, bool is_aligned);
bool is_all_aligned(const BarrierReduceLaunch& launch);

}  // namespace plait
