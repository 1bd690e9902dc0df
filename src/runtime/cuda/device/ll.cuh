// Packets: 16 bytes, of which two words of 4 bytes are data and two say which epoch it is of.
//
// Each half is stored and loaded as one 64-bit access, which is single-copy atomic, so data and flag are never seen
// apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/device/ptx.cuh"
#include "runtime/queue_loop.hpp"

namespace plait {

namespace ll {

// What stands for an epoch: never 0, which memory holds that no packet has been in. Epochs with the same flag are
// 2^32 - 1 apart, so the next one in the same half of the memory twice as many.
PLAIT_HOST_DEVICE constexpr uint32_t flag_of(uint64_t epoch) {
  const uint64_t sum = (epoch & 0xffffffff) + (epoch >> 32);
  return static_cast<uint32_t>(sum) + static_cast<uint32_t>(sum >> 32);
}

__device__ inline void store(std::byte* to, uint64_t data, uint32_t flag) {
  const uint64_t low = (data & 0xffffffff) | static_cast<uint64_t>(flag) << 32;
  const uint64_t high = data >> 32 | static_cast<uint64_t>(flag) << 32;
  ptx::store_relaxed(to, low, high);
}

// The two words of a packet as they were seen.
struct Halves {
  uint64_t low, high;

  __device__ uint64_t data() const { return (low & 0xffffffff) | high << 32; }
  __device__ uint32_t flag() const { return static_cast<uint32_t>(low >> 32); }
  __device__ bool carry(uint32_t flag) const { return low >> 32 == flag && high >> 32 == flag; }
};

__device__ inline Halves load(const std::byte* from) {
  Halves halves;
  ptx::load_relaxed(from, halves.low, halves.high);
  return halves;
}

}  // namespace ll

}  // namespace plait
