// Which of its GPU memory a rank lets others map (cuda/peer_buffers.hpp): a table that all of them see.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace plait {

inline constexpr int kMostExports = 64;

// In shared memory, zero at first.
struct Exports {
  std::array<std::atomic<uint64_t>, kMostExports> allocations;  // numbers; 0: none, or freed
  // Little memory is left: nobody shall keep any of these mapped who need not, since what is freed is free only then.
  std::atomic<uint32_t> are_wanted_back;
};

}  // namespace plait
