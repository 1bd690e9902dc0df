// The memory that a rank's GPU shares with its peers, and what it remembers between launches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/lane_loop.hpp"

namespace plait {

inline constexpr int kMostDeviceRanks = 16;
inline constexpr int kMostStrands = 64;
inline constexpr int kMostLanes = 3;  // of a rank in a plan; each is a CTA of the strand

// Where things lie in a rank's block. Every strand has signals, scratch and packets of its own, twice, for even and odd
// epochs (see host/segment.hpp for the rule); they stay a strand's own however many strands a launch has, since ranks
// may be in different launches at one time.
//
// Packets and lines have memory that nothing else is ever written to: any word of it is a flag of an epoch or none.
struct BlockLayout {
  static constexpr size_t kSignalStride = 16;

  size_t scratch_bytes = 0;  // per strand and parity, a multiple of 128
  size_t packet_bytes = 0;   // per strand and parity, a multiple of 128
  size_t line_bytes = 0;     // per strand and parity, a multiple of 128
  int signals = 0;           // per strand and parity

  // The last epoch that each lane of each rank has completed, told by that rank: a word for each.
  PLAIT_HOST_DEVICE size_t completed_at(int strand, int rank, int lane) const {
    return ((strand * kMostDeviceRanks + rank) * kMostLanes + lane) * sizeof(uint64_t);
  }
  PLAIT_HOST_DEVICE size_t signals_at(int strand, unsigned parity) const {
    return completed_at(kMostStrands, 0, 0) + (strand * 2 + parity) * signals * kSignalStride;
  }
  PLAIT_HOST_DEVICE size_t scratch_at(int strand, unsigned parity) const {
    return signals_at(kMostStrands, 0) + (strand * 2 + parity) * scratch_bytes;
  }
  PLAIT_HOST_DEVICE size_t packets_at(int strand, unsigned parity) const {
    return scratch_at(kMostStrands, 0) + (strand * 2 + parity) * packet_bytes;
  }
  PLAIT_HOST_DEVICE size_t lines_at(int strand, unsigned parity) const {
    return packets_at(kMostStrands, 0) + (strand * 2 + parity) * line_bytes;
  }
  PLAIT_HOST_DEVICE size_t total_bytes() const { return lines_at(kMostStrands, 0); }
};

// What a lane of a strand remembers from launch to launch, in device memory: so that a launch replayed from a CUDA
// graph counts on.
struct StrandState {
  uint64_t epoch = 0;               // runs of a plan over one slice so far
  uint64_t everyone_completed = 0;  // the last epoch that every rank is known to be done with
};

// Why a strand gave up: in host memory that the GPU writes. `state` is written last.
struct StrandFailure {
  enum State : uint32_t { kNone, kTimedOut, kOtherCall };
  uint32_t state = kNone;
  int32_t peer = -1;
  int32_t operation = -1;  // of the plan's lane; -1: the wait for others to be done with an earlier call
  uint32_t expected_call = 0, seen_call = 0;  // signatures (signals only)
  uint64_t expected_epoch = 0, seen_epoch = 0;
};

}  // namespace plait
