// The lane loop on a GPU: one kernel launch performs the `sm` lane of a rank (NVG-50, with the repairs of requirements
// section 7.1).
//
// The message is cut into slices, and a strand (a CTA, see tuner/launch_shape.hpp) runs the whole plan on one slice
// after the other (on its last one, it may be, another plan); where the plan has several lanes a rank, a strand is a
// CTA for each, which may be a slice apart. A strand waits only for strands of its own number on other ranks, within
// bounds, so a launch needs no barrier between its CTAs, and ranks may be several launches apart.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.hpp"
#include "runtime/cuda/device_rank.hpp"
#include "runtime/cuda/flagged_program.hpp"
#include "runtime/cuda/lane_program.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// Memory of every rank in the host's, for strands that go there (HostBlockLayout), as this GPU addresses it; null where
// there is none.
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
struct SignalLaunch : Launch {
  int first_strand = 0;         // kMostStrands: through host memory
  HostBlocks host_blocks = {};  // then
  uint32_t pace = 0;  // then: clock cycles for each vector of 16 bytes that every thread of a CTA stores at a peer
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  SliceProgram full[kMostLanes], ending[kMostLanes], last[kMostLanes];  // see LaneProgram
  DeviceOperation operations[160];
  DevicePlace places[320];
  SignalWord words[160];
};

// With flags inside the data: plans of one lane and few steps. See flagged_program.hpp.
struct FlaggedLaunch : Launch {
  bool words_are_aligned = false;  // all pieces of the caller's memory start at multiples of eight bytes
  uint32_t group_shift = 0;        // with packets: 1 << group_shift threads for each word
  SliceProgram full, last;
  FlaggedStep steps[48];
  FlaggedPlace places[576];  // over 9 ranks and more, 16 for each step
};

// The kernel for a protocol and a type: what cudaLaunchKernel takes, with a SignalLaunch or, for packets and lines, a
// FlaggedLaunch.
//
// With signals it takes vectors of 16 bytes, of which all places of the caller's have to be multiples; there is another
// one for any places.
const void* lane_kernel(Protocol protocol, DataType type);
const void* unaligned_kernel(DataType type);

// A thread for each lane of each rank, and for each word of a run.
static_assert(kLeastThreads >= kMostDeviceRanks * kMostLanes && kLeastThreads >= kMostWordsOfRun);

}  // namespace plait
