// The information about its rank that every kernel gets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/lowering/device_block.hpp"

namespace plait {

// A rank of a communicator, as a kernel sees it. Pointers are to device memory unless a comment says otherwise.
struct DeviceRank {
  int rank = 0;
  int ranks = 1;
  ChannelState* states = nullptr;            // this rank's, one for each queue of each channel
  std::byte* blocks[kMostDeviceRanks] = {};  // by rank
  ChannelFailure* failures = nullptr;        // one for each state; host memory
  const uint32_t* aborted = nullptr;         // host memory; not 0 once the communicator has failed
  uint64_t wait_nanoseconds = 0;             // a wait that lasts longer gives up
};

}  // namespace plait
