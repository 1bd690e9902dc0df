// A verified plan, bound to one call on one rank. Every place has become an offset from a base pointer, and every
// signal the offset of its flag. It is the same on CPUs and GPUs. Binding happens once for a (plan, count, type,
// operation). Performing a bound plan allocates nothing and computes nothing but addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/verifier.hpp"
#include "runtime/buffer_blocks.hpp"
#include "runtime/call.hpp"
#include "runtime/inbox_shape.hpp"
#include "runtime/message_layout.hpp"

namespace plait {

// Base pointers are kept in a table. Entry 0 is the user's input, 1 the user's output, and 2 + r the scratch of rank r.
// The entry after the last scratch is the rank's own signals. Behind it follows the host memory of rank 0 and so on, if
// that is apart from scratch (BindLimits::host_apart).
inline constexpr uint32_t kInputBase = 0;
inline constexpr uint32_t kOutputBase = 1;
inline constexpr uint32_t kFirstScratchBase = 2;
constexpr uint32_t first_host_base(int ranks) { return kFirstScratchBase + static_cast<uint32_t>(ranks) + 1; }

struct BoundPlace {
  uint32_t base = 0;
  size_t offset = 0;  // bytes
};

struct BoundOperation {
  OpKind kind = OpKind::kReduce;
  bool result_is_wide = false;
  bool has_wide_source = false;
  int divisor = 0;
  uint32_t streaming_outputs = 0;  // bit d: destination d, in the user's output, is written past the caches
  uint32_t streaming_scratch = 0;  // the same, in scratch, if that is faster here (runtime/host/store_trial.hpp)
  int destination_count = 0;
  int source_count = 0;
  size_t first_place = 0;  // destinations, then sources, in BoundSlice::places
  size_t first_flag = 0;   // first entry of BoundSlice::source_is_wide
  size_t elements = 0;
  int peer_rank = -1;         // signal: the rank that it goes to; wait: the rank that it comes from
  size_t word_offset = 0;     // signal and wait: bytes into the signals of the rank that waits
  bool carries_data = false;  // signal: it carries the data at places[first_place], see BindLimits::signal_payload
  size_t bytes = 0;           // send and receive: of the piece at places[first_place]
  int message = -1;           // send and receive: the number of the message among those of the receiving rank
  bool in_memory = false;     // send and receive: it goes through the receiver's inbox, places[first_place + 1]
  InboxShape inbox;           // of such a message; the inbox's flags are where signals are
  int request = -1;           // send and receive: of BoundSlice::requests
  bool is_buffered = false;   // send: what it sends may be overwritten at any time afterwards
  bool ends_send = false;     // send: nothing new; waits until the send of this request has left its memory
  int operation = 0;          // index in the plan's queue, for messages of errors
};

// One run of the plan, for slices of one size.
struct BoundSlice {
  std::vector<std::vector<BoundOperation>> queues;
  std::vector<BoundPlace> places;
  std::vector<uint8_t> source_is_wide;
  int most_places = 0;           // the most of any operation
  bool streams_scratch = false;  // true if some operation streams to scratch
  bool is_small = false;         // for all ranks: it fits BindLimits::small_scratch_bytes and small_signals
  int requests = 0;              // sends and receives
  SliceLayout layout;
};

// Slices that follow each other and are cut alike.
struct SliceRun {
  size_t slices = 0;
  BoundSlice slice;
};

struct BoundPlan {
  const VerifiedPlan* plan = nullptr;
  size_t slices = 0;       // of the message, one run each: all but the last run `full`, the last runs `last`
  size_t slice_bytes = 0;  // from one slice to the next, in the user buffers
  BoundSlice full, last;
  std::vector<SliceRun> unequal;  // of blocks of unequal sizes, which end one by one: in place of `full` and `last`

  // Whether scratch is written past the caches in some slice.
  bool streams_scratch() const {
    bool streams = full.streams_scratch || last.streams_scratch;
    for (const SliceRun& run : unequal) streams |= run.slice.streams_scratch;
    return streams;
  }
};

struct BindLimits {
  size_t signal_stride = 64;       // bytes from one flag to the next
  size_t scratch_bytes = 0;        // per rank (or channel), of one epoch
  int signals = 0;                 // per rank, of one epoch
  size_t small_scratch_bytes = 0;  // the same of epochs that have little of both; 0: no epoch is told apart
  int small_signals = 0;
  bool messages = false;                 // there is a network to other nodes; else all ranks are on one host
  size_t streaming_scratch_bytes = 512;  // pieces from this size on may be written to scratch past the caches
  size_t streaming_output_bytes = 0;  // messages from this size on are written to the output past the caches; 0: never
  // Bytes behind each flag that may carry data. A rank that publishes once and no more than that sends its data with
  // its signals. Flag and data then cross between cores in one cache line, which halves the latency of a small message.
  size_t signal_payload = 0;
  // Slots of host memory have bases of their own. Else they follow those of scratch.
  bool host_apart = false;
  bool chunk_by_chunk = false;  // never joins neighbouring chunks into one operation
  // Number of slices under way at once (runtime/cuda/kernels), each with scratch of its own. The message is cut into
  // this many slices or a multiple of it, as long as slices are at least `least_slice_bytes`.
  size_t channels = 1;
  size_t least_slice_bytes = 1;  // of a block
};

// Throws kResources if a plan does not fit the limits at all.
BoundPlan bind(const VerifiedPlan& plan, const Call& call, int rank, const BindLimits& limits);
// Binds the plan to blocks of unequal sizes. The rank may know its own only, if it touches no others (linear); else
// all ranks know all.
BoundPlan bind(const VerifiedPlan& plan, const Call& call, int rank, const BindLimits& limits,
               const BufferBlocks& blocks);
// Binds the plan to a part of every block, as if the message had no more.
BoundPlan bind(const VerifiedPlan& plan, const Call& call, int rank, const BindLimits& limits, const BlockPart& part);
// Binds the plan to the slices of `other`, which is bound to the same part, so that either plan can perform any of
// them.
BoundPlan bind_alike(const BoundPlan& other, const VerifiedPlan& plan, const Call& call, int rank,
                     const BindLimits& limits, const BlockPart& part);

}  // namespace plait
