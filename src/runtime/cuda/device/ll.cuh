// The LL protocol's line: 16 bytes, two words of 4 bytes of data, each followed by a flag of 4 bytes that tells the
// epoch.
//
// Each half is stored and loaded with one 64-bit access, which is single-copy atomic, so nobody sees the data without
// its flag.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/device/ptx.cuh"
#include "runtime/queue_loop.hpp"

namespace plait {

namespace ll {

// The flag of an epoch. It is never 0, which is what memory holds before the first store. Epochs with the same flag are
// 2^32 - 1 apart; in the same half of the memory they are twice as far apart.
PLAIT_HOST_DEVICE constexpr uint32_t flag_of(uint64_t epoch) {
  const uint64_t sum = (epoch & 0xffffffff) + (epoch >> 32);
  return static_cast<uint32_t>(sum) + static_cast<uint32_t>(sum >> 32);
}

__device__ inline void store(std::byte* to, uint64_t data, uint32_t flag) {
  const uint64_t low = (data & 0xffffffff) | static_cast<uint64_t>(flag) << 32;
  const uint64_t high = data >> 32 | static_cast<uint64_t>(flag) << 32;
  ptx::store_relaxed(to, low, high);
}

// The two halves of a line, as one load saw them.
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
