// Copies by several threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/device/ptx.cuh"
#include "runtime/cuda/device/unaligned.cuh"

namespace plait {

// The side of a copy that is in peer memory, if one is. A warp's accesses there should straddle as few 128-byte lines
// as possible, since links carry whole lines. Loads that straddled more took up to a sixth longer
// (docs/notes/odd_sizes.md).
enum class PeerSide { kSource, kDestination };

// Copies vectors `first` to `last` between aligned places, as thread `thread` of `threads`. A thread has `kAtOnce`
// loads under way together, then their stores. Thread 0 begins at vector 0 and not at `first`, so that warps begin at
// lines.
template <int kAtOnce, class Index>
__device__ void copy_vectors(uint4* out, const uint4* in, Index first, Index last, Index thread, Index threads) {
  for (Index i = thread; i < last; i += threads * kAtOnce) {
    // One comparison checks both bounds: below `first` the difference wraps.
    const auto is_ours = [=](int u) { return i + u * threads - first < last - first; };
    uint4 values[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (is_ours(u)) values[u] = in[i + u * threads];
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (is_ours(u)) out[i + u * threads] = values[u];
    }
  }
}

// The same if `in` is not aligned.
template <int kAtOnce, class Index>
__device__ void copy_shifted(uint4* out, const std::byte* in, Index first, Index last, Index thread, Index threads) {
  const unsigned bytes = misalignment(in);
  const auto* const aligned = reinterpret_cast<const uint4*>(in - bytes);
  for (Index i = thread; i < last; i += threads * kAtOnce) {
    const auto is_ours = [=](int u) { return i + u * threads - first < last - first; };
    uint4 low[kAtOnce], high[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (!is_ours(u)) continue;
      low[u] = ptx::load_around(&aligned[i + u * threads], bytes, sizeof(uint4));
      high[u] = ptx::load_around(&aligned[i + u * threads + 1], 0, bytes);
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (is_ours(u)) out[i + u * threads] = shift_vectors(low[u], high[u], bytes);
    }
  }
}

// Copies any bytes at any alignment, 16 at a time except at the ends.
template <int kAtOnce, PeerSide peer_side, class Index>
__device__ void copy_bytes(std::byte* to, const std::byte* from, Index bytes, Index thread, Index threads) {
  const auto to_boundary = static_cast<Index>(-reinterpret_cast<uintptr_t>(to) % sizeof(uint4));
  const Index head = to_boundary < bytes ? to_boundary : bytes;
  const Index vectors = (bytes - head) / sizeof(uint4);
  // Vectors are counted from the beginning of a line in peer memory.
  const auto at_peer = reinterpret_cast<uintptr_t>(peer_side == PeerSide::kSource ? from + head : to + head);
  const auto skew = static_cast<Index>(at_peer % kLinkLineBytes / sizeof(uint4));
  auto* const out = reinterpret_cast<uint4*>(to + head) - skew;
  const std::byte* const in = from + head - skew * sizeof(uint4);
  Index first = 0, last = vectors;
  if (misalignment(in) == 0) {
    copy_vectors<kAtOnce>(out, reinterpret_cast<const uint4*>(in), skew, skew + vectors, thread, threads);
  } else {  // a shifted load reads beyond its vector, which may be outside the allocation at both ends
    first = vectors < 2 ? 0 : 1;
    last = vectors < 2 ? 0 : vectors - 1;
    copy_shifted<kAtOnce / 2>(out, in, skew + first, skew + last, thread, threads);
  }
  const Index front = head + first * sizeof(uint4), back = head + last * sizeof(uint4);
  for (Index i = thread; i < front + (bytes - back); i += threads) {
    const Index at = i < front ? i : back + (i - front);
    to[at] = from[at];
  }
}

}  // namespace plait
