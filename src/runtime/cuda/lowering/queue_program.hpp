// A bound plan in the form that the kernel reads: small enough to travel as the kernel's argument, so that a launch
// needs no memory of its own and a captured launch stays right for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/cuda/memory/device_block.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

struct DevicePlace {
  uint64_t base : 8;     // of the table of base pointers, see bound_plan.hpp
  uint64_t writer : 8;   // with packets and lines, of what is read from scratch: the rank that stores it
  uint64_t offset : 48;  // bytes; in scratch of what is stored there, so with the flags of packets and lines
};

// Bytes that `data` bytes take with their flags.
inline constexpr size_t kLlLineBytes = 16, kLlData = 8, kLl128LineBytes = 128, kLl128Data = 120;
constexpr size_t stored_bytes(Protocol protocol, size_t data) {
  if (protocol == Protocol::kLl) return (data + kLlData - 1) / kLlData * kLlLineBytes;
  if (protocol == Protocol::kLl128) return (data + kLl128Data - 1) / kLl128Data * kLl128LineBytes;
  return data;
}

// One word of a run of signals or waits.
struct FlagRef {
  uint16_t number = 0;
  uint16_t peer = 0;       // signal: whose word; wait: whom to blame
  uint16_t operation = 0;  // of the plan's queue, for messages
  uint16_t unused = 0;
};

// A reduce, or a run of neighbouring signals or waits: those are one barrier of the CTA and a thread for each word, of
// which any CTA has enough.
inline constexpr int kMostFlagsOfRun = kLeastThreads;
struct DeviceOperation {
  OpKind kind = OpKind::kReduce;
  bool result_is_wide : 1 = false;
  bool after_barrier : 1 = false;  // touches what a reduce before it touches, with other threads perhaps
  bool is_batched : 1 = false;     // performed together with a reduce before it, see `together`
  uint8_t destinations = 0;        // of a reduce
  uint8_t sources = 0;
  uint16_t first = 0;  // reduce: of `places`, destinations first; else of `words`
  uint8_t count = 0;   // words; reduce: places
  // Copies that do not touch each other, this one and those that follow: performed at once, so that all their loads are
  // under way together. With flags of equally many elements.
  uint8_t batch = 1;
  uint16_t divisor = 0;       // average: of the finished sum; 0: none
  uint16_t wide_sources = 0;  // a bit for each source that holds an unfinished reduction in float32
  uint32_t elements = 0;
};
// Of a reduce: it keeps every bit, also of a NaN, which widening and rounding would not.
PLAIT_HOST_DEVICE constexpr bool is_copy(const DeviceOperation& reduce) {
  return reduce.sources == 1 && reduce.divisor == 0 && (reduce.wide_sources != 0) == reduce.result_is_wide;
}
static_assert(sizeof(DeviceOperation) == 16 && sizeof(DevicePlace) == 8 && sizeof(FlagRef) == 8);

// What ranks know of each other at the end of an epoch. If one is not awaited, none is, and all hear everyone: of an
// epoch in which all have heard that all are done with the one before, nobody need tell.
struct EpochEnd {
  // Every peer is known to have entered it, so to be done with the epoch before.
  bool implicit_ack = false;
  // Some peer may not be able to conclude the same of this rank, and waits until it says that it has completed it.
  bool needs_ack = true;

  friend bool operator==(const EpochEnd&, const EpochEnd&) = default;
};

// Queues of all ranks: a bit for each, rank * kMostQueues + queue.
using QueueSet = uint64_t;
static_assert(kMostDeviceRanks * kMostQueues <= 64);

// What a queue does in one run of the plan, over slices of one size.
struct SliceProgram {
  uint16_t first = 0;  // operation
  uint16_t count = 0;
  EpochEnd end;
  bool ends_with_signals = false;  // the last operation
  // Who must be done with the epoch before last, if that was a full slice of the same launch, before this queue may
  // store anything: whoever touched then what the queue writes now.
  QueueSet predecessors = 0;
};

// What a rank performs in one call.
struct QueueProgram {
  uint64_t slices = 0;
  uint64_t slice_bytes = 0;
  int queues = 1;
  // Of each queue: for slices of full size, for those of them that are the last of their channel, and for the last of
  // all.
  SliceProgram full[kMostQueues], ending[kMostQueues], last[kMostQueues];
  std::vector<DeviceOperation> operations;
  std::vector<DevicePlace> places;
  std::vector<FlagRef> flags;
};

// Throws kResources where the program does not fit into a launch, kInvalidPlan where a rank of the plan has too
// many queues.
// `ending`, if not null: another plan, bound to the same slices, for the last slice of each channel. As many queues.
QueueProgram make_queue_program(const BoundPlan& bound, const Call& call, int rank, Protocol protocol,
                                const BoundPlan* ending = nullptr);

}  // namespace plait
