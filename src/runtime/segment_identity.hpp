// Tells the memory that the ranks of one communicator share from that of others.
#pragma once

#include <compare>
#include <cstdint>

namespace plait {

// Equal for all ranks, and for no other communicator as long as one of them lives.
struct SegmentIdentity {
  uint64_t file_system = 0;  // 0: memory of this process only
  uint64_t number = 0;
  friend auto operator<=>(const SegmentIdentity&, const SegmentIdentity&) = default;
};

}  // namespace plait
