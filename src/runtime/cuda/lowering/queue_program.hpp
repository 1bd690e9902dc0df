// A bound plan in the form that the kernel reads. It is small enough to be the kernel's argument, so a launch needs no
// memory of its own, and a captured launch stays valid for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/cuda/lowering/device_block.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

struct DevicePlace {
  uint64_t base : 8;     // index into the table of base pointers, see bound_plan.hpp
  uint64_t writer : 8;   // LL and LL128, for sources in scratch: the rank that stores there
  uint64_t offset : 48;  // bytes; in scratch of LL and LL128, flags included
};

// Bytes that `data` bytes take in scratch, with their flags if the protocol has them.
inline constexpr size_t kLlLineBytes = 16, kLlData = 8, kLl128LineBytes = 128, kLl128Data = 120;
constexpr size_t stored_bytes(Protocol protocol, size_t data) {
  if (protocol == Protocol::kLl) return (data + kLlData - 1) / kLlData * kLlLineBytes;
  if (protocol == Protocol::kLl128) return (data + kLl128Data - 1) / kLl128Data * kLl128LineBytes;
  return data;
}

// The flag of a signal or wait.
struct FlagRef {
  uint16_t number = 0;
  uint16_t peer = 0;       // signal: the rank that has the flag; wait: the rank that stores it, for error messages
  uint16_t operation = 0;  // number in the plan's queue, for error messages
  uint16_t unused = 0;
};

// A reduce, or a run of neighbouring signals or waits. A run is one barrier of the CTA and a thread for each flag; any
// CTA has enough threads.
inline constexpr int kMostFlagsOfRun = kLeastThreads;
struct DeviceOperation {
  OpKind kind = OpKind::kReduce;
  bool result_is_wide : 1 = false;
  bool after_barrier : 1 = false;  // needs a barrier first: it touches what an earlier reduce touches
  bool is_batched : 1 = false;     // belongs to the batch of an earlier reduce, see `batch`
  uint8_t destinations = 0;        // of a reduce
  uint8_t sources = 0;
  uint16_t first = 0;  // reduce: index into `places`, destinations first; else into `flags`
  uint8_t count = 0;   // reduce: of places; else of flags
  // How many copies are performed at once, this one and those that follow, so that all their loads are under way
  // together. They do not touch each other, and with LL and LL128 have equally many elements.
  uint8_t batch = 1;
  uint16_t divisor = 0;       // average: the result is divided by it; 0: not
  uint16_t wide_sources = 0;  // a bit for each source that holds a partial result in float32
  uint32_t elements = 0;
};
// Whether a reduce is a copy. A copy keeps every bit, even of a NaN; widening and rounding would not.
PLAIT_HOST_DEVICE constexpr bool is_copy(const DeviceOperation& reduce) {
  return reduce.sources == 1 && reduce.divisor == 0 && (reduce.wide_sources != 0) == reduce.result_is_wide;
}
static_assert(sizeof(DeviceOperation) == 16 && sizeof(DevicePlace) == 8 && sizeof(FlagRef) == 8);

// The knowledge of ranks about each other at the end of an epoch. Either all ranks need acknowledgements, or none does
// and all have implicit ones.
struct EpochEnd {
  // This rank has seen that every peer has entered the epoch, and so is done with the epoch before.
  bool implicit_ack = false;
  // Some peer may not see the same of this rank, and waits until this rank says that it has completed the epoch.
  bool needs_ack = true;

  friend bool operator==(const EpochEnd&, const EpochEnd&) = default;
};

// A set of queues of all ranks: bit rank * kMostQueues + queue.
using QueueSet = uint64_t;
static_assert(kMostDeviceRanks * kMostQueues <= 64);

// The work of a queue in one run of the plan, over slices of one size.
struct SliceProgram {
  uint16_t first = 0;  // index of the first operation
  uint16_t count = 0;
  EpochEnd end;
  bool ends_with_signals = false;  // the last operation is a run of signals
  // The queues that touch what this queue writes. They must be done with the epoch before last before this queue may
  // store anything. Used only if that epoch was a full slice of the same launch.
  QueueSet predecessors = 0;
};

// The work of a rank in one call.
struct QueueProgram {
  uint64_t slices = 0;
  uint64_t slice_bytes = 0;
  int queues = 1;
  // By queue: for slices of full size, for those that are the last of their channel, and for the last slice of all.
  SliceProgram full[kLongQueues], ending[kLongQueues], last[kLongQueues];
  std::vector<DeviceOperation> operations;
  std::vector<DevicePlace> places;
  std::vector<FlagRef> flags;
};

// `ending`, if not null, is another plan for the last slice of each channel, bound to the same slices and with as many
// queues. Throws kResources if the program does not fit into a launch, kInvalidPlan if a rank of the plan has too many
// queues. `is_long`: see LaunchShape.
QueueProgram make_queue_program(const BoundPlan& bound, const Call& call, int rank, Protocol protocol,
                                const BoundPlan* ending = nullptr, bool is_long = false);

// The room in the argument of a launch: see SimpleLaunch.
inline constexpr size_t kLaunchOperations = 160, kLaunchPlaces = 320, kLaunchFlags = 160;
inline bool fits_argument(const QueueProgram& program) {
  return program.operations.size() <= kLaunchOperations && program.places.size() <= kLaunchPlaces &&
         program.flags.size() <= kLaunchFlags;
}

}  // namespace plait
