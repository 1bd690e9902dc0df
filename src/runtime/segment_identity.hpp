// Identifies the memory that the ranks of one communicator share.
#pragma once

#include <compare>
#include <cstdint>

namespace plait {

// Equal on all ranks of a communicator, and different from that of any other communicator that is alive.
struct SegmentIdentity {
  uint64_t file_system = 0;  // 0: memory of this process only
  uint64_t number = 0;
  friend auto operator<=>(const SegmentIdentity&, const SegmentIdentity&) = default;
};

}  // namespace plait
