// What every kernel is told of its rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/memory/device_block.hpp"

namespace plait {

// A rank's end of a communicator, as the kernel sees it. Pointers are the device's unless said otherwise.
struct DeviceRank {
  int rank = 0;
  int ranks = 1;
  ChannelState* states = nullptr;            // of every queue of every channel; this rank's own
  std::byte* blocks[kMostDeviceRanks] = {};  // of every rank
  ChannelFailure* failures = nullptr;        // as states; host memory
  const uint32_t* aborted = nullptr;         // host memory: not 0 once the communicator has failed
  uint64_t wait_nanoseconds = 0;             // a channel that waits longer gives up
};

}  // namespace plait
