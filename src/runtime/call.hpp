// One call of a collective, as every rank must make it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/reductions.hpp"
#include "plan/verifier.hpp"

namespace plait {

struct Call {
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;  // reducing collectives only
  int root = 0;                  // rooted collectives only
  size_t count = 0;           // elements of a block: what one rank gives (all-gather) or gets (reduce-scatter); else of
                              // the whole message
  bool is_split = false;      // the library's own call, in which ranks agree on how to split their communicator
  bool is_agreement = false;  // the same, on which of several plans is the fastest (PLAIT_ADAPT)
  // The same, in which ranks measure the network before the call that this one is otherwise (PLAIT_NETWORK_GBITS).
  bool measures_network = false;
  uint32_t order = 0;  // of the axes of all buffers in memory (pack_axis_order()), for callers that know axes
  uint64_t plan = 0;   // the fingerprint of the plan that the caller gave; 0: the tuner chooses
  // Blocks have sizes of their own, as in all_gather_v (buffer_blocks.hpp). `count` is then of all blocks, and `counts`
  // the fingerprint of their sizes, where every rank knows them (knows_all_counts()); else both are 0.
  bool by_counts = false;
  uint64_t counts = 0;
  bool is_blocking = false;  // without a stream (kBlockingStream)

  friend bool operator==(const Call&, const Call&) = default;
};

// In the place of a stream: the call returns when its result is there. No stream of CUDA is that.
inline void* const kBlockingStream = reinterpret_cast<void*>(~uintptr_t{0});

// Packs the axes of an array, in the order in which they follow each other in memory from the outermost to the
// innermost, into a number. It is 0 if they are 0, 1, 2, … as in C. No value for more than eight axes in another order.
std::optional<uint32_t> pack_axis_order(std::span<const size_t> axes);

// A call of this plan: its collective and root, and of a barrier nothing else. `op`: reducing collectives only.
Call call_by(const VerifiedPlan& plan, DataType type, ReduceOp op, size_t count);

// "all_reduce of 1000 float32 (sum)", for messages.
std::string to_text(const Call& call);
// Throws kInvalidArgument that begins with the rank and its call.
template <class... Parts>
[[noreturn]] void refuse_call(int rank, const Call& call, const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, "rank ", rank, ", ", to_text(call), ": ", parts...);
}
// "all_reduce", "all_to_all_v".
std::string name_of(const Call& call);

// Whether every rank knows the sizes of all blocks, in a call by counts of this collective. In the others a rank knows
// those of the blocks that it gives and gets.
inline bool knows_all_counts(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter;
}

// A fingerprint that ranks exchange with every signal; never 0.
uint32_t signature(const Call& call);

// Whether `rank` has an input in this call, and whether it has an output.
inline bool has_input(const Call& call, int rank) {
  return call.root == rank || (call.collective != Collective::kBroadcast && call.collective != Collective::kScatter);
}
inline bool has_output(const Call& call, int rank) {
  return call.root == rank || (call.collective != Collective::kReduce && call.collective != Collective::kGather);
}

// Number of elements in the input or output of `rank`; 0 if it has none.
size_t input_elements(const Call& call, int ranks, int rank);
size_t output_elements(const Call& call, int ranks, int rank);

// Whether the call, which every rank makes like any other, moves nothing and waits for nobody. By counts, only one rank
// may know that it has nothing.
inline bool is_empty(const Call& call) {
  return call.count == 0 && !call.by_counts && call.collective != Collective::kBarrier;
}

// Bytes of the whole message, nccl-tests' "size". A message that is larger than size_t can tell has SIZE_MAX.
inline size_t message_bytes(const Call& call, int ranks) {
  const bool has_equal_blocks = has_rank_blocks(call.collective) && !call.by_counts;
  const size_t bytes_each = size_of(call.type) * (has_equal_blocks ? static_cast<size_t>(ranks) : 1);
  return call.count > SIZE_MAX / bytes_each ? SIZE_MAX : call.count * bytes_each;
}

}  // namespace plait
