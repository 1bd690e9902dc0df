// Loads and stores of 16-byte vectors at any address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/device/ptx.cuh"
#include "runtime/cuda/lowering/device_block.hpp"

namespace plait {

static_assert(kVectorBytes == sizeof(uint4));

// How far an address is from a multiple of a vector's size.
__device__ inline unsigned misalignment(const std::byte* address) {
  return static_cast<unsigned>(reinterpret_cast<uintptr_t>(address) % sizeof(uint4));
}

// The 16 bytes that begin `bytes` (less than 16) after the first of two neighbouring vectors does.
__device__ inline uint4 shift_vectors(const uint4& low, const uint4& high, unsigned bytes) {
  uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  if (bytes & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = words[i + 2];
  }
  if (bytes & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = words[i + 1];
  }
  const unsigned bits = bytes % 4 * 8;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = static_cast<uint32_t>((static_cast<uint64_t>(words[i + 1]) << 32 | words[i]) >> bits);
  }
  return {words[0], words[1], words[2], words[3]};
}

// Stores the first `count` bytes of a vector, less than all, so that they end at a multiple of 16. It takes as few
// stores as possible, the smallest first.
__device__ inline void store_front(std::byte* to, uint4 value, unsigned count) {
  if (count & 1) {
    *reinterpret_cast<uint8_t*>(to) = static_cast<uint8_t>(value.x);
    value = shift_vectors(value, {}, 1);
    to += 1;
  }
  if (count & 2) {
    *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(value.x);
    value = shift_vectors(value, {}, 2);
    to += 2;
  }
  if (count & 4) {
    *reinterpret_cast<uint32_t*>(to) = value.x;
    value = shift_vectors(value, {}, 4);
    to += 4;
  }
  if (count & 8) *reinterpret_cast<uint2*>(to) = {value.x, value.y};
}

// Stores the last `count` bytes of a vector to an address that is a multiple of 16, the smallest store last.
__device__ inline void store_back(std::byte* to, uint4 value, unsigned count) {
  value = shift_vectors(value, {}, sizeof(uint4) - count);
  if (count & 8) {
    *reinterpret_cast<uint2*>(to) = {value.x, value.y};
    value = shift_vectors(value, {}, 8);
    to += 8;
  }
  if (count & 4) {
    *reinterpret_cast<uint32_t*>(to) = value.x;
    value.x = value.y;
    to += 4;
  }
  if (count & 2) {
    *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(value.x);
    value.x >>= 16;
    to += 2;
  }
  if (count & 1) *reinterpret_cast<uint8_t*>(to) = static_cast<uint8_t>(value.x);
}

// Loads a thread's vectors of those at `memory`: numbers `first`, `first` + `stride` and so on, below `last`. Vector is
// a Pack. `is_aligned`: `memory` is a multiple of its size.
//
// An unaligned vector lies in two aligned ones, and this loads the first; complete_vectors() loads the second and joins
// them, so that other loads can be issued in between. Both read beyond the vector, so it needs valid memory on both
// sides.
template <bool is_aligned, class Vector, int count>
__device__ void load_vectors(const std::byte* memory, uint32_t first, uint32_t stride, uint32_t last,
                             Vector (&values)[count]) {
  const unsigned bytes = is_aligned ? 0 : misalignment(memory);
  const auto* const from = reinterpret_cast<const uint4*>(memory - bytes);
#pragma unroll
  for (int u = 0; u < count; ++u) {
    const uint32_t i = first + u * stride;
    values[u].bits = i < last ? ptx::load_around(&from[i], bytes, sizeof(uint4)) : uint4{0, 0, 0, 0};
  }
}
template <bool is_aligned, class Vector, int count>
__device__ void complete_vectors(const std::byte* memory, uint32_t first, uint32_t stride, uint32_t last,
                                 Vector (&values)[count]) {
  if constexpr (!is_aligned) {
    const unsigned bytes = misalignment(memory);
    if (bytes == 0) return;
    const auto* const from = reinterpret_cast<const uint4*>(memory - bytes) + 1;
    uint4 next[count];
#pragma unroll
    for (int u = 0; u < count; ++u) {
      const uint32_t i = first + u * stride;
      if (i < last) next[u] = ptx::load_around(&from[i], 0, bytes);
    }
#pragma unroll
    for (int u = 0; u < count; ++u) values[u].bits = shift_vectors(values[u].bits, next[u], bytes);
  }
}

// Stores such vectors. If they are not aligned, all threads of a warp have to call this, with neighbouring numbers.
// Each stores an aligned vector that it shares with its neighbour, and the threads at both ends store what is left.
// Nothing outside the vectors is written.
template <bool is_aligned, class Vector, int count>
__device__ void store_vectors(std::byte* memory, uint32_t first, uint32_t stride, uint32_t last,
                              const Vector (&values)[count]) {
  const unsigned bytes = is_aligned ? 0 : misalignment(memory);
  auto* const to = reinterpret_cast<uint4*>(memory - bytes);
  if (bytes == 0) {
#pragma unroll
    for (int u = 0; u < count; ++u) {
      const uint32_t i = first + u * stride;
      if (i < last) to[i] = values[u].bits;
    }
    return;
  }
  if constexpr (!is_aligned) {
    const unsigned in_warp = threadIdx.x % kWarpThreads;
#pragma unroll
    for (int u = 0; u < count; ++u) {
      const uint32_t i = first + u * stride;
      const uint4& value = values[u].bits;
      const uint4 before = {__shfl_up_sync(kWholeWarp, value.x, 1), __shfl_up_sync(kWholeWarp, value.y, 1),
                            __shfl_up_sync(kWholeWarp, value.z, 1), __shfl_up_sync(kWholeWarp, value.w, 1)};
      if (i >= last) continue;
      if (in_warp == kWarpThreads - 1 || i + 1 == last) {
        store_back(reinterpret_cast<std::byte*>(&to[i + 1]), value, bytes);
      }
      if (in_warp > 0) {
        to[i] = shift_vectors(before, value, sizeof(uint4) - bytes);
      } else {
        store_front(memory + size_t{i} * sizeof(uint4), value, sizeof(uint4) - bytes);
      }
    }
  }
}

}  // namespace plait
