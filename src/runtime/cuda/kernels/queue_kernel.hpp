// The queue loop on a GPU: one kernel launch performs the `sm` queue of a rank (NVG-50, with the repairs of
// requirements section 7.1).
//
// The message is cut into slices, and a channel (a CTA, see tuner/launch_shape.hpp) runs the whole plan on one slice
// after the other (on its last one, it may be, another plan); where the plan has several queues a rank, a channel is a
// CTA for each, which may be a slice apart. A channel waits only for channels of its own number on other ranks, within
// bounds, so a launch needs no barrier between its CTAs, and ranks may be several launches apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/reductions.hpp"
#include "runtime/cuda/lowering/ll_program.hpp"
#include "runtime/cuda/lowering/queue_program.hpp"
#include "runtime/cuda/memory/device_rank.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// Memory of every rank in the host's, for channels that go there (HostBlockLayout), as this GPU addresses it; null
// where there is none.
struct HostBlocks {
  std::byte* of[kMostDeviceRanks] = {};
};

// One call, passed to the kernel by value. To be read by the kernel itself and what is inlined into it: in a function
// that is not, a pointer into it gave values of another launch.
struct Launch {
  uint64_t slices = 0;
  uint64_t slice_bytes = 0;
  uint32_t call = 0;  // its signature (24 bits): a signal of another call does not pass for one of this
  ReduceOp op = ReduceOp::kSum;
  DeviceRank self;
};

// With signals: any plan.
struct SimpleLaunch : Launch {
  int first_channel = 0;        // kMostChannels: through host memory
  HostBlocks host_blocks = {};  // then
  uint32_t rate_limit =
      0;  // then: clock cycles for each vector of 16 bytes that every thread of a CTA stores at a peer
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  SliceProgram full[kMostQueues], ending[kMostQueues], last[kMostQueues];  // see QueueProgram
  DeviceOperation operations[160];
  DevicePlace places[320];
  FlagWord words[160];
};

// With flags inside the data: plans of one queue and few steps. See ll_program.hpp.
struct LlLaunch : Launch {
  bool words_are_aligned = false;  // all pieces of the caller's memory start at multiples of eight bytes
  uint32_t group_shift = 0;        // with packets: 1 << group_shift threads for each word
  SliceProgram full, last;
  LlStep steps[48];
  LlPlace places[576];  // over 9 ranks and more, 16 for each step
};

// The kernel for a protocol and a type: what cudaLaunchKernel takes, with a SimpleLaunch or, for packets and lines, a
// LlLaunch.
//
// With signals it takes vectors of 16 bytes, of which all places of the caller's have to be multiples; there is another
// one for any places.
const void* queue_kernel(Protocol protocol, DataType type);
const void* unaligned_kernel(DataType type);

// A thread for each queue of each rank, and for each word of a run.
static_assert(kLeastThreads >= kMostDeviceRanks * kMostQueues && kLeastThreads >= kMostWordsOfRun);

}  // namespace plait
