// The queue loop on a GPU: one kernel launch performs the `sm` queues of a rank (NVG-50, with the repairs of the
// papers' Algorithm 1).
//
// The message is cut into slices. A channel (see tuner/launch_shape.hpp) runs the whole plan on one slice after the
// other, perhaps with another plan on its last slice. If a rank has several queues, a channel is a CTA for each, and
// these may be a slice apart. A channel waits only for channels of the same number on other ranks, and its waits are
// bounded. So a launch needs no barrier between its CTAs, and ranks may be several launches apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/reductions.hpp"
#include "runtime/cuda/lowering/ll_program.hpp"
#include "runtime/cuda/lowering/queue_program.hpp"
#include "runtime/cuda/memory/device_rank.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// Every rank's block in host memory (HostBlockLayout), as this GPU addresses it, for channels of a HostPath; null if
// there is none.
struct HostBlocks {
  std::byte* of[kMostDeviceRanks] = {};
};

// One call: the kernel's argument, passed by value. Only the kernel and code inlined into it may read it through a
// pointer: in a function that is not inlined, a pointer to it gave values of another launch.
struct Launch {
  uint64_t slices = 0;
  uint64_t slice_bytes = 0;
  uint32_t call = 0;  // its signature (24 bits), so that a signal of another call is noticed
  ReduceOp op = ReduceOp::kSum;
  DeviceRank self;
};

// The argument for a plan with Simple that fits into it.
struct SimpleLaunch : Launch {
  using Room = OrdinaryRoom;
  int first_channel = 0;  // kMostChannels: this is a host path, and uses the next two members
  HostBlocks host_blocks = {};
  uint32_t rate_limit = 0;  // clock cycles per vector of 16 bytes that every thread of a CTA stores to a peer; 0: none
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  SliceProgram full[kMostQueues], ending[kMostQueues], last[kMostQueues];  // see QueueProgram
  DeviceOperation operations[kLaunchOperations];
  DevicePlace places[kLaunchPlaces];
  FlagRef flags[kLaunchFlags];
};

// The argument for a long plan with Simple. Its program is in memory of the GPU, which nobody changes: see
// kernels/program_memory.hpp. All ranks launch such a plan from here, whether their own program is long or not.
struct LongLaunch : Launch {
  using Room = LongRoom;
  static constexpr int first_channel = 0;
  static constexpr uint32_t rate_limit = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  const SliceProgram* full = nullptr;  // kLongQueues each, see QueueProgram
  const SliceProgram* ending = nullptr;
  const SliceProgram* last = nullptr;
  const DeviceOperation* operations = nullptr;
  const DevicePlace* places = nullptr;
  const FlagRef* flags = nullptr;
};

// The argument for plans with LL or LL128. They have one queue and few steps: see ll_program.hpp.
struct LlLaunch : Launch {
  bool words_are_aligned = false;  // all pieces of user buffers are 8-byte aligned
  uint32_t group_shift = 0;        // with LL, 1 << group_shift threads handle a word
  SliceProgram full, last;
  LlStep steps[48];
  LlPlace places[576];  // with 9 ranks and more, 16 for each step
};

// There is a thread for each ordinary queue of each rank, and for each flag of a run.
static_assert(kLeastThreads >= kMostDeviceRanks * kMostQueues && kLeastThreads >= kMostFlagsOfRun);

}  // namespace plait
