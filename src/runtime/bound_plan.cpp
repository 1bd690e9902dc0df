// Binds plans to calls.
#include "runtime/bound_plan.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/conditions.hpp"
#include "runtime/sent_memory.hpp"

namespace plait {
namespace {

bool sends_messages(const Plan& plan) {
  return std::ranges::any_of(plan.ranks, [](const RankPlan& it) { return it.messages > 0; });
}

// The number of the signal of `rank` that `peer` sends.
int signal_from(const Plan& plan, int rank, int peer) {
  for (const Operation& operation : plan.ranks[rank].queues[0].operations) {
    if (operation.kind == OpKind::kWait && operation.peer_rank == peer) return operation.number;
  }
  fail(ErrorCode::kInternal, "plan ", plan.algorithm, ": rank ", rank, " waits for no signal of rank ", peer);
}

class Binder {
 public:
  // `blocks`: of this rank, where their sizes differ; `part` then holds the longest of them.
  Binder(const VerifiedPlan& verified, const Call& call, int rank, const BindLimits& limits, const BlockPart& part,
         const BufferBlocks* blocks = nullptr);
  BoundPlan bind();
  BoundPlan bind_unequal();
  BoundPlan bind_alike(const BoundPlan& other);

 private:
  // Binds slices of `elements` elements of a block, the last one shorter. 0: there are none.
  BoundPlan bind_slices(size_t elements);
  // The pieces of one send, as a range among those of a slice.
  struct RequestRange {
    int first = 0, end = 0;
  };

  BoundSlice bind_slice(const SliceLayout& layout);
  void end_sends(const std::vector<RequestRange>& requests, BoundSlice& slice) const;
  void bind_reduce(const Operation& operation, const ReduceFacts& facts, const SliceLayout& layout, BoundSlice& slice,
                   std::vector<BoundOperation>& queue) const;
  void bind_message(const Operation& operation, const ReduceFacts& facts, const SliceLayout& layout, BoundSlice& slice,
                    std::vector<BoundOperation>& queue) const;
  BoundPlace bind_place(const Place& place, int chunk, int chunks_before, const SliceLayout& layout) const;
  int end_of_piece(const Operation& operation, int chunk, const SliceLayout& layout) const;
  size_t elements(int chunk, int chunks, const SliceLayout& layout) const;
  void check_signals_and_messages() const;
  void enter_inbox(BoundOperation& message, BoundSlice& slice) const;
  bool is_streamed(const Place& place, size_t elements) const;
  bool is_small(const SliceLayout& layout) const;
  bool are_together(int peer) const { return !limits_.messages || plan_.node_of[peer] == plan_.node_of[rank_]; }
  size_t largest_slice() const;
  size_t even_slice() const;
  SliceLayout layout_for(size_t block_elements) const;
  const BufferBlock& block_of(int chunk) const;
  SliceLayout layout_of_block(const BufferBlock& block, const SliceLayout& layout) const;
  bool is_wide(bool partial) const { return partial && accumulates_in_float32(call_.type); }

  const VerifiedPlan& verified_;
  const Plan& plan_;
  const Call& call_;
  const int rank_;
  const BindLimits& limits_;
  const BlockPart part_;
  const BufferBlocks* const blocks_;
  const bool has_inboxes_;
  std::optional<SentMemory> sent_;  // none where no rank sends messages
  size_t first_ = 0;                // of each block, in the current slice of unequal blocks
  bool data_in_signals_ = false;    // of the current slice
  const size_t element_bytes_;
  size_t slot_element_bytes_;  // scratch slots are as wide as the widest element that any of them holds
  int slots_ = 0;              // most slots of any rank, so that all ranks cut the message alike
};

Binder::Binder(const VerifiedPlan& verified, const Call& call, int rank, const BindLimits& limits,
               const BlockPart& part, const BufferBlocks* blocks)
    : verified_(verified),
      plan_(verified.plan()),
      call_(call),
      rank_(rank),
      limits_(limits),
      part_(part),
      blocks_(blocks),
      has_inboxes_(verified.report().shape.has_messages_alone),
      element_bytes_(size_of(call.type)),
      slot_element_bytes_(element_bytes_) {
  for (const RankPlan& ranks : plan_.ranks) slots_ = std::max(slots_, ranks.scratch_slots + ranks.host_slots);
  check_signals_and_messages();
  if (sends_messages(plan_)) sent_.emplace(plan_, rank);
  for (const auto& queues : verified.report().facts) {
    for (const auto& queue : queues) {
      for (const ReduceFacts& facts : queue) {
        if (is_wide(facts.result_is_partial)) slot_element_bytes_ = accumulator_size_of(call.type);
      }
    }
  }
}

void Binder::check_signals_and_messages() const {
  for (const RankPlan& ranks : plan_.ranks) {
    const int signals = has_inboxes_ ? InboxShape::signals_of(ranks) : ranks.signals;
    if (signals > limits_.signals) {
      fail(ErrorCode::kResources, "plan ", plan_.algorithm, " needs ", counted(signals, "signal"),
           " a rank, but there are ", limits_.signals,
           has_inboxes_ ? ", two for each message that it receives" : "; use a plan with fewer chunks");
    }
    if (ranks.messages > 0 && !limits_.messages && !has_inboxes_) {
      fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm,
           " sends messages between nodes, and these ranks are on one node");
    }
  }
}

// Returns the most elements of a block that one run of the plan can carry.
size_t Binder::largest_slice() const {
  if (slots_ == 0) return part_.count;
  const size_t slot_bytes = limits_.scratch_bytes / slots_ / kChunkAlignment * kChunkAlignment;
  if (slot_bytes == 0) {
    fail(ErrorCode::kResources, "plan ", plan_.algorithm, " needs ", counted(slots_, "scratch slot"), " of at least ",
         kChunkAlignment, " bytes, but a rank has only ", counted(limits_.scratch_bytes, "byte"),
         "; raise PLAIT_SCRATCH_KIB");
  }
  // Granules are counted in elements of the user's type, so leave room for them in the wider slots.
  const size_t granule = std::max<size_t>(1, kChunkAlignment / element_bytes_);
  const size_t chunk = slot_bytes / slot_element_bytes_ / granule * granule;
  if (chunk == 0) {
    fail(ErrorCode::kResources, "plan ", plan_.algorithm, " needs ", counted(slots_, "scratch slot"), " of ",
         granule * slot_element_bytes_, " bytes, but a rank has only ", counted(limits_.scratch_bytes, "byte"),
         "; raise PLAIT_SCRATCH_KIB");
  }
  return std::min(part_.count, chunk * static_cast<size_t>(plan_.chunks_per_block));
}

// A chunk's block is in one of the rank's buffers, or its size is not known here.
const BufferBlock& Binder::block_of(int chunk) const {
  for (const auto& [window, blocks] : {std::pair(input_window(plan_, rank_), &blocks_->input),
                                       std::pair(output_window(plan_, rank_), &blocks_->output)}) {
    const int position = window.blocks > 0 ? window.position_of(chunk) : -1;
    if (position >= 0) return blocks->at(static_cast<size_t>(position / plan_.chunks_per_block));
  }
  fail(ErrorCode::kInternal, "plan ", plan_.algorithm, ": rank ", rank_, " does not know the size of chunk ", chunk);
}

// The part of one block in a slice, in chunks of its own size. Slots have that of the longest block's chunks.
SliceLayout Binder::layout_of_block(const BufferBlock& block, const SliceLayout& layout) const {
  const size_t rest = block.count - std::min(block.count, first_);
  SliceLayout own = layout_for(std::min(rest, layout.block_elements));
  own.block_stride = 0;
  return own;
}

size_t Binder::elements(int chunk, int chunks, const SliceLayout& layout) const {
  if (blocks_ == nullptr) return layout.elements(chunk, chunks);
  return layout_of_block(block_of(chunk), layout).elements(chunk, chunks);
}

SliceLayout Binder::layout_for(size_t block_elements) const {
  return {block_elements, call_.count, chunk_elements_for(block_elements, plan_.chunks_per_block, element_bytes_),
          plan_.chunks_per_block};
}

BoundPlan Binder::bind() { return bind_slices(plan_.blocks == 0 || part_.count == 0 ? 0 : even_slice()); }

// Slices have the same elements of every block, as far as the block goes. Between the slices in which blocks end, all
// are cut alike.
BoundPlan Binder::bind_unequal() {
  if (slots_ > 0 && !knows_all_counts(plan_.collective)) {
    fail(ErrorCode::kInternal, "plan ", plan_.algorithm, " passes on blocks whose sizes a rank does not know");
  }
  if (part_.count == 0) return bind_slices(0);
  const size_t elements = even_slice();
  BoundPlan bound;
  bound.plan = &verified_;
  bound.slices = (part_.count + elements - 1) / elements;
  bound.slice_bytes = elements * element_bytes_;
  std::vector<size_t> borders{0, bound.slices};  // slices in which another layout begins
  for (const auto* all : {&blocks_->input, &blocks_->output}) {
    for (const BufferBlock& block : *all) {
      for (const size_t border : {block.count / elements, (block.count + elements - 1) / elements}) {
        borders.push_back(border);
      }
    }
  }
  std::ranges::sort(borders);
  for (size_t i = 1; i < borders.size(); ++i) {
    if (borders[i] == borders[i - 1]) continue;
    first_ = borders[i - 1] * elements;
    bound.unequal.push_back(
        {borders[i] - borders[i - 1], bind_slice(layout_for(std::min(elements, part_.count - first_)))});
  }
  return bound;
}

// Returns the elements of slices of even size, at multiples where an element of the accumulator is aligned. Every
// channel gets equally many.
size_t Binder::even_slice() const {
  const auto divide = [](size_t a, size_t b) { return (a + b - 1) / b; };
  const size_t largest = largest_slice();
  const size_t rounds = divide(part_.count, largest * limits_.channels);
  const size_t granule = std::max<size_t>(1, kChunkAlignment / element_bytes_);
  const size_t even =
      std::max(divide(part_.count, rounds * limits_.channels), limits_.least_slice_bytes / element_bytes_);
  return std::min(largest, divide(std::max<size_t>(even, 1), granule) * granule);
}

BoundPlan Binder::bind_alike(const BoundPlan& other) {
  const size_t elements = other.slice_bytes / element_bytes_;
  if (const size_t largest = largest_slice(); elements > largest) {
    fail(ErrorCode::kResources, "plan ", plan_.algorithm, " has scratch for slices of ", counted(largest, "element"),
         ", and not of ", elements, ", as plan ", other.plan->plan().algorithm, " has");
  }
  return bind_slices(elements);
}

BoundPlan Binder::bind_slices(size_t elements) {
  BoundPlan bound;
  bound.plan = &verified_;
  bound.slices = 1;
  if (elements == 0) {  // signals only
    bound.last = bind_slice({0, 0, 1, std::max(1, plan_.chunks_per_block)});
    return bound;
  }
  bound.slices = (part_.count + elements - 1) / elements;
  bound.slice_bytes = elements * element_bytes_;
  if (bound.slices > 1) bound.full = bind_slice(layout_for(elements));
  bound.last = bind_slice(layout_for(part_.count - (bound.slices - 1) * elements));
  return bound;
}

BoundSlice Binder::bind_slice(const SliceLayout& layout) {
  BoundSlice slice;
  slice.layout = layout;
  slice.is_small = is_small(layout);
  const size_t chunk_bytes = std::min(layout.chunk_elements, layout.block_elements) * slot_element_bytes_;
  data_in_signals_ =
      chunk_bytes > 0 && chunk_bytes <= limits_.signal_payload && verified_.report().shape.publishes_once;
  const auto& queues = plan_.ranks[rank_].queues;
  std::vector<RequestRange> requests;  // of each send, in the order of SentMemory
  for (size_t l = 0; l < queues.size(); ++l) {
    auto& bound = slice.queues.emplace_back();
    for (size_t i = 0; i < queues[l].operations.size(); ++i) {
      const Operation& operation = queues[l].operations[i];
      const ReduceFacts& facts = verified_.report().facts[rank_][l][i];
      const size_t before = bound.size();
      if (operation.kind == OpKind::kReduce) bind_reduce(operation, facts, layout, slice, bound);
      if (operation.kind == OpKind::kSend || operation.kind == OpKind::kReceive) {
        const int first = slice.requests;
        bind_message(operation, facts, layout, slice, bound);
        if (operation.kind == OpKind::kSend) requests.push_back({first, slice.requests});
      }
      for (size_t b = before; b < bound.size(); ++b) bound[b].operation = static_cast<int>(i);
      if (operation.kind != OpKind::kSignal && operation.kind != OpKind::kWait) continue;
      BoundOperation it;
      it.kind = operation.kind;
      it.peer_rank = operation.peer_rank;
      it.word_offset = static_cast<size_t>(operation.number) * limits_.signal_stride;
      it.operation = static_cast<int>(i);
      if (operation.kind == OpKind::kSignal && data_in_signals_) {
        it.carries_data = true;
        it.first_place = slice.places.size();
        slice.places.push_back({kFirstScratchBase + static_cast<uint32_t>(rank_), 0});
      }
      bound.push_back(it);
    }
  }
  if (!requests.empty()) end_sends(requests, slice);
  return slice;
}

// A queue goes on when a send has started, so whoever writes to what it sends waits for its end first. A send that has
// not started by then comes after the write: the verifier has seen to that.
void Binder::end_sends(const std::vector<RequestRange>& requests, BoundSlice& slice) const {
  const auto& queues = plan_.ranks[rank_].queues;
  for (size_t l = 0; l < queues.size(); ++l) {
    std::vector<BoundOperation> bound;
    for (const BoundOperation& operation : slice.queues[l]) {
      const bool is_first = bound.empty() || bound.back().operation != operation.operation;
      if (is_first) {
        const OperationId id{rank_, static_cast<int>(l), operation.operation};
        for (const size_t send : sent_->overwritten_by(id)) {
          BoundOperation end;
          end.kind = OpKind::kSend;
          end.ends_send = true;
          end.operation = operation.operation;
          for (end.request = requests[send].first; end.request < requests[send].end; ++end.request) {
            bound.push_back(end);
          }
        }
      }
      bound.push_back(operation);
    }
    slice.queues[l] = std::move(bound);
  }
}

// The pieces of a message have one tag, and come in their order. Both ends cut it alike. A message without elements in
// this slice still says that what comes after it may be done.
void Binder::bind_message(const Operation& operation, const ReduceFacts& facts, const SliceLayout& layout,
                          BoundSlice& slice, std::vector<BoundOperation>& queue) const {
  const bool sends = operation.kind == OpKind::kSend;
  BoundOperation it;
  it.kind = operation.kind;
  it.peer_rank = operation.peer_rank;
  it.message = operation.number;
  it.is_buffered = sends && operation.chunks > 0 && sent_->is_written_elsewhere(operation.sources[0], operation.chunks);
  const size_t element = is_wide(facts.result_is_partial) ? accumulator_size_of(call_.type) : element_bytes_;
  const int end = operation.chunk + operation.chunks;
  const int first_request = slice.requests;
  for (int chunk = operation.chunk; chunk < end;) {
    const int piece_end = end_of_piece(operation, chunk, layout);
    it.bytes = elements(chunk, piece_end - chunk, layout) * element;
    if (it.bytes > 0) {
      const Place& place = sends ? operation.sources[0] : operation.destinations[0];
      it.first_place = slice.places.size();
      slice.places.push_back(bind_place(place, chunk, chunk - operation.chunk, layout));
      enter_inbox(it, slice);
      it.request = slice.requests++;
      queue.push_back(it);
    }
    chunk = piece_end;
  }
  if (slice.requests > first_request) return;
  it.bytes = 0;
  it.first_place = slice.places.size();
  slice.places.push_back({kFirstScratchBase + static_cast<uint32_t>(rank_), 0});
  enter_inbox(it, slice);
  it.request = slice.requests++;
  queue.push_back(it);
}

// Names the inbox of a message between ranks of one host, behind the message's place.
void Binder::enter_inbox(BoundOperation& message, BoundSlice& slice) const {
  if (!are_together(message.peer_rank)) return;
  if (!has_inboxes_) {
    fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm, " sends a message from rank ", rank_, " to rank ",
         message.peer_rank, ", which are on one host; such plans have no scratch, and a block in each message");
  }
  const int receiver = message.kind == OpKind::kSend ? message.peer_rank : rank_;
  message.in_memory = true;
  message.inbox = InboxShape::of(plan_.ranks[receiver], message.message, limits_.scratch_bytes, limits_.signal_stride);
  if (message.inbox.slot_bytes == 0) {
    fail(ErrorCode::kResources, "plan ", plan_.algorithm, " needs ", plan_.ranks[receiver].messages,
         " inboxes on rank ", receiver, ", but a rank has only ", counted(limits_.scratch_bytes, "byte"),
         " for them; raise PLAIT_SCRATCH_KIB");
  }
  slice.places.push_back({kFirstScratchBase + static_cast<uint32_t>(receiver), message.inbox.offset});
}

// The last chunk, excluded, of the piece that begins with `chunk`.
int Binder::end_of_piece(const Operation& operation, int chunk, const SliceLayout& layout) const {
  const bool slots_are_apart = slot_element_bytes_ != element_bytes_ || (blocks_ != nullptr && slots_ > 0);
  if (slots_are_apart || limits_.chunk_by_chunk) return chunk + 1;
  const int block_end = (chunk / layout.chunks_per_block + 1) * layout.chunks_per_block;
  return std::min(operation.chunk + operation.chunks, block_end);
}

// One operation of the plan may become several, because a piece must be contiguous in every place. Blocks of a user
// buffer are apart, and slots are apart if they are wider than what they hold.
void Binder::bind_reduce(const Operation& operation, const ReduceFacts& facts, const SliceLayout& layout,
                         BoundSlice& slice, std::vector<BoundOperation>& queue) const {
  int chunk = operation.chunk;
  const int end = operation.chunk + operation.chunks;
  while (chunk < end) {
    const int piece_end = end_of_piece(operation, chunk, layout);
    const size_t elements = this->elements(chunk, piece_end - chunk, layout);
    if (elements > 0) {
      BoundOperation it;
      it.kind = OpKind::kReduce;
      it.result_is_wide = is_wide(facts.result_is_partial);
      it.divisor = facts.finishes ? divisor_of(call_.op, plan_.rank_count()) : 0;
      it.destination_count = static_cast<int>(operation.destinations.size());
      it.source_count = static_cast<int>(operation.sources.size());
      it.first_place = slice.places.size();
      it.first_flag = slice.source_is_wide.size();
      it.elements = elements;
      for (size_t d = 0; d < operation.destinations.size(); ++d) {
        const Place& place = operation.destinations[d];
        slice.places.push_back(bind_place(place, chunk, chunk - operation.chunk, layout));
        uint32_t& streaming = place.buffer == Buffer::kOutput ? it.streaming_outputs : it.streaming_scratch;
        if (d < 32 && is_streamed(place, elements)) streaming |= 1u << d;
      }
      for (size_t s = 0; s < operation.sources.size(); ++s) {
        slice.places.push_back(bind_place(operation.sources[s], chunk, chunk - operation.chunk, layout));
        slice.source_is_wide.push_back(is_wide(facts.source_is_partial[s]));
        it.has_wide_source |= is_wide(facts.source_is_partial[s]);
      }
      slice.most_places = std::max(slice.most_places, it.destination_count + it.source_count);
      slice.streams_scratch |= it.streaming_scratch != 0;
      queue.push_back(it);
    }
    chunk = piece_end;
  }
}

// Peers on other cores read scratch, so their caches hold its lines from the epoch before last. Taking such lines back
// one by one costs ten times as much as writing past the caches (docs/notes/cpu_shared_memory.md); a peer reads either
// equally fast. The user's output is streamed only if the caches could not hold it anyway.
bool Binder::is_streamed(const Place& place, size_t elements) const {
  if (place.buffer == Buffer::kOutput) {
    return limits_.streaming_output_bytes > 0 &&
           message_bytes(call_, plan_.rank_count()) >= limits_.streaming_output_bytes;
  }
  return elements * element_bytes_ >= limits_.streaming_scratch_bytes;
}

// All ranks find the same. Where blocks have sizes of their own, a rank may not know those of others.
bool Binder::is_small(const SliceLayout& layout) const {
  if (limits_.small_scratch_bytes == 0 || blocks_ != nullptr || sent_) return false;
  const auto has_few = [&](const RankPlan& it) { return it.signals <= limits_.small_signals; };
  const size_t slots = layout.block_elements > 0 ? static_cast<size_t>(slots_) : 0;
  return slots * layout.chunk_elements * slot_element_bytes_ <= limits_.small_scratch_bytes &&
         std::ranges::all_of(plan_.ranks, has_few);
}

BoundPlace Binder::bind_place(const Place& place, int chunk, int chunks_before, const SliceLayout& layout) const {
  // The blocks of a user buffer lie one behind the other.
  const auto within = [&](const ChunkWindow& window, const std::vector<BufferBlock> BufferBlocks::* blocks) {
    const int position = window.position_of(chunk);
    if (blocks_ == nullptr) return (layout.begin(position) + part_.first) * element_bytes_;
    const BufferBlock& block = (blocks_->*blocks).at(static_cast<size_t>(position / plan_.chunks_per_block));
    return (block.first + layout_of_block(block, layout).begin(position % plan_.chunks_per_block)) * element_bytes_;
  };
  const bool callers = place.buffer == Buffer::kInput || place.buffer == Buffer::kOutput;
  if (callers && place.rank != rank_) {
    fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm, " accesses the ", name(place.buffer), " of rank ",
         place.rank, "; ranks that are processes need a plan with access ", name(Access::kStaged));
  }
  switch (place.buffer) {
    case Buffer::kInput:
      return {kInputBase, within(input_window(plan_, place.rank), &BufferBlocks::input)};
    case Buffer::kOutput:
      return {kOutputBase, within(output_window(plan_, place.rank), &BufferBlocks::output)};
    default: {
      if (data_in_signals_ && place.rank != rank_) {
        const auto number = static_cast<size_t>(signal_from(plan_, rank_, place.rank));
        return {kFirstScratchBase + static_cast<uint32_t>(plan_.rank_count()),
                number * limits_.signal_stride + sizeof(uint64_t)};
      }
      const bool is_in_host = place.buffer == Buffer::kHost, is_apart = is_in_host && limits_.host_apart;
      const int host_after = is_in_host && !is_apart ? plan_.ranks[place.rank].scratch_slots : 0;
      const size_t slot = static_cast<size_t>(host_after + place.slot + chunks_before);
      return {(is_apart ? first_host_base(plan_.rank_count()) : kFirstScratchBase) + static_cast<uint32_t>(place.rank),
              slot * layout.chunk_elements * slot_element_bytes_};
    }
  }
}

}  // namespace

BoundPlan bind(const VerifiedPlan& plan, const Call& call, int rank, const BindLimits& limits,
               const BufferBlocks& blocks) {
  const size_t longest = std::max(most_elements(blocks.input), most_elements(blocks.output));
  return Binder(plan, call, rank, limits, {0, longest}, &blocks).bind_unequal();
}

BoundPlan bind(const VerifiedPlan& plan, const Call& call, int rank, const BindLimits& limits) {
  return bind(plan, call, rank, limits, {0, call.count});
}

BoundPlan bind(const VerifiedPlan& plan, const Call& call, int rank, const BindLimits& limits, const BlockPart& part) {
  return Binder(plan, call, rank, limits, part).bind();
}

BoundPlan bind_alike(const BoundPlan& other, const VerifiedPlan& plan, const Call& call, int rank,
                     const BindLimits& limits, const BlockPart& part) {
  return Binder(plan, call, rank, limits, part).bind_alike(other);
}

}  // namespace plait
