// The LL128 protocol's line: 128 bytes that eight threads of a warp store or load at once, fifteen words of data and a
// last word that is the flag of an epoch.
//
// The protocol is right only if 128 bytes that a warp stores with one instruction arrive together, and if a load of
// them sees one moment. That holds over NVLink and within the memory of one GPU, but not over PCIe. No document
// promises it; NCCL's LL128 relies on it, too. See LaunchShape and PeerMemory::supports_ll128().
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/kernels/channel.cuh"
#include "runtime/cuda/lowering/queue_program.hpp"

namespace plait::ll128 {

inline constexpr int kThreads = kLl128LineBytes / 16;  // per line
inline constexpr int kWords = kLl128Data / 8;          // words of data per line

// This thread's number among the threads of its line.
__device__ inline uint32_t place() { return threadIdx.x % kThreads; }
__device__ inline bool has_flag() { return place() == kThreads - 1; }

// A thread's share of a line: two neighbouring words. The last thread's second word is the flag.
struct WordPair {
  uint64_t low = 0, high = 0;
};

__device__ inline void store(std::byte* to, const WordPair& pair, bool has_flag, uint64_t flag) {
  ptx::store_line(to, pair.low, has_flag ? flag : pair.high);
}

__device__ inline WordPair load(const std::byte* from) {
  WordPair pair;
  ptx::load_line(from, pair.low, pair.high);
  return pair;
}

// Whether the line that this thread and its neighbours have loaded has the flag. For all threads of a warp.
__device__ inline bool has_come(const WordPair& pair, uint64_t flag) {
  const unsigned last = threadIdx.x % 32 | (kThreads - 1);  // the line's last thread, as numbered in the warp
  return (__ballot_sync(kWholeWarp, pair.high == flag) >> last & 1) != 0;
}

}  // namespace plait::ll128
