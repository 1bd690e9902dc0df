// A table in shared memory of the GPU memory that a rank lets others map (runtime/cuda/memory/peer_buffers.hpp).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace plait {

inline constexpr int kMostExports = 64;

// Lies in shared memory, which is zero at first.
struct Exports {
  std::array<std::atomic<uint64_t>, kMostExports> allocations;  // numbers of allocations; 0: none, or freed
  // Set when little memory is left. Ranks then unmap these allocations as soon as they can, since freed memory is
  // available only after that.
  std::atomic<uint32_t> are_wanted_back;
};

}  // namespace plait
