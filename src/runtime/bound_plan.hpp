// A verified plan, bound to one call on one rank: every place has become an offset from a base pointer, every signal
// the offset of its word. The same on CPUs and GPUs. Binding happens once for a (plan, count, type, operation);
// performing a bound plan allocates nothing and computes nothing but addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/verifier.hpp"
#include "runtime/call.hpp"
#include "runtime/message_layout.hpp"

namespace plait {

// Base pointers are kept in a table: 0 the caller's input, 1 its output, 2 + r the scratch of rank r, and behind the
// last scratch the rank's own signals.
inline constexpr uint32_t kInputBase = 0;
inline constexpr uint32_t kOutputBase = 1;
inline constexpr uint32_t kFirstScratchBase = 2;

struct BoundPlace {
  uint32_t base = 0;
  size_t offset = 0;  // bytes
};

struct BoundOperation {
  OpKind kind = OpKind::kReduce;
  bool result_is_wide = false;
  bool has_wide_source = false;
  int divisor = 0;
  uint32_t streaming_outputs = 0;  // bit d: destination d, in the caller's output, is written past the caches
  uint32_t streaming_scratch = 0;  // the same, in scratch, unless all ranks run on one core
  int destination_count = 0;
  int source_count = 0;
  size_t first_place = 0;  // destinations, then sources, in BoundSlice::places
  size_t first_flag = 0;   // of source_is_wide, in BoundSlice::source_is_wide
  size_t elements = 0;
  int peer_rank = -1;         // signal: whose word; wait: whom to blame
  size_t word_offset = 0;     // signal and wait: bytes into the waiting rank's signals
  bool carries_data = false;  // signal: with what lies at places[first_place], see BindLimits::signal_payload
  int operation = 0;          // index in the plan's queue, for messages
};

// One run of the plan, for slices of one size.
struct BoundSlice {
  std::vector<std::vector<BoundOperation>> queues;
  std::vector<BoundPlace> places;
  std::vector<uint8_t> source_is_wide;
  int most_places = 0;           // of any operation
  bool streams_scratch = false;  // some operation does
  SliceLayout layout;
};

struct BoundPlan {
  const VerifiedPlan* plan = nullptr;
  size_t slices = 0;       // of the message, a run each: all but the last on `full`, the last on `last`
  size_t slice_bytes = 0;  // from one slice to the next, in the caller's buffers
  BoundSlice full, last;
};

struct BindLimits {
  size_t signal_stride = 64;             // bytes from one signal word to the next
  size_t scratch_bytes = 0;              // per rank (or channel) and epoch parity
  int signals = 0;                       // per rank and epoch parity
  size_t streaming_scratch_bytes = 512;  // pieces from this size on are written to scratch past the caches
  size_t streaming_output_bytes = 0;  // messages from this size on are written to the output past the caches; 0: none
  // Bytes behind each signal word that may carry data. A rank that publishes no more than that, once, sends it with its
  // signals, so that word and data cross between cores in one cache line: half the latency of a small message.
  size_t signal_payload = 0;
  bool chunk_by_chunk = false;  // never join neighbouring chunks into one operation
  // How many slices are under way at once (cuda/queue_kernel.hpp), each with scratch of its own: the message is cut
  // into as many, or a multiple of it, as far as slices stay as large as `least_slice_bytes`.
  size_t channels = 1;
  size_t least_slice_bytes = 1;  // of a block
};

// Throws kResources where a plan does not fit the limits at all.
BoundPlan bind(const VerifiedPlan& plan, const Call& call, int rank, const BindLimits& limits);
// The same for a part of every block, as if there were no more.
BoundPlan bind(const VerifiedPlan& plan, const Call& call, int rank, const BindLimits& limits, const BlockPart& part);
// The same in the slices of another plan that is bound to this part, so that some of them can be performed by the one
// and some by the other.
BoundPlan bind_alike(const BoundPlan& other, const VerifiedPlan& plan, const Call& call, int rank,
                     const BindLimits& limits, const BlockPart& part);

}  // namespace plait
