// Lines: 128 bytes that eight threads of a warp store and load at once, fifteen words of data and, in the last, which
// epoch it is of.
//
// That is right only where the 128 bytes that threads of a warp store with one instruction arrive together, and those
// that they load are of one moment. NVLink and the memory of one GPU keep that, PCIe does not, and no document promises
// it: NCCL's protocol LL128 rests on the same. See LaunchShape and PeerMemory::keeps_lines_whole().
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/kernels/channel.cuh"
#include "runtime/cuda/lowering/queue_program.hpp"

namespace plait::ll128 {

inline constexpr int kThreads = kLl128LineBytes / 16;  // of a line
inline constexpr int kWords = kLl128Data / 8;          // of data in it

// Which of a line's threads this one is.
__device__ inline uint32_t place() { return threadIdx.x % kThreads; }
__device__ inline bool has_flag() { return place() == kThreads - 1; }

// A thread's share of a line, two neighbouring words; of the last thread the second is the flag.
struct Pair {
  uint64_t low = 0, high = 0;
};

__device__ inline void store(std::byte* to, const Pair& pair, bool has_flag, uint64_t flag) {
  ptx::store_line(to, pair.low, has_flag ? flag : pair.high);
}

__device__ inline Pair load(const std::byte* from) {
  Pair pair;
  ptx::load_line(from, pair.low, pair.high);
  return pair;
}

// Whether the line that this thread and its neighbours hold has the flag. For all threads of a warp.
__device__ inline bool has_come(const Pair& pair, uint64_t flag) {
  const unsigned last = threadIdx.x % 32 | (kThreads - 1);  // of the line's threads, in the warp
  return (__ballot_sync(kWholeWarp, pair.high == flag) >> last & 1) != 0;
}

}  // namespace plait::ll128
