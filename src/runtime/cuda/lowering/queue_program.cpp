// Lowers a bound plan to the kernel's program.
#include "runtime/cuda/lowering/queue_program.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "runtime/cuda/lowering/device_block.hpp"

namespace plait {
namespace {

// Whether the two operations touch a common place, as far as the plan shows: input and output may be the same memory.
// In all_to_all, input and output order their chunks differently, so any chunk of one may lie where one of the other
// does.
bool share(Collective collective, const Operation& a, const std::vector<Place>& of_a, const Operation& b,
           const std::vector<Place>& of_b) {
  const auto users = [](const Place& place) {
    return place.buffer == Buffer::kInput || place.buffer == Buffer::kOutput;
  };
  for (const Place& x : of_a) {
    for (const Place& y : of_b) {
      if (x.rank != y.rank || users(x) != users(y)) continue;
      if (collective == Collective::kAllToAll && users(x) && x.buffer != y.buffer) return true;
      const int first_x = users(x) ? a.chunk : x.slot;
      const int first_y = users(y) ? b.chunk : y.slot;
      if (first_x < first_y + b.chunks && first_y < first_x + a.chunks) return true;
    }
  }
  return false;
}

bool conflict(Collective collective, const Operation& a, const Operation& b) {
  return share(collective, a, a.destinations, b, b.destinations) ||
         share(collective, a, a.destinations, b, b.sources) || share(collective, a, a.sources, b, b.destinations);
}

class QueueWriter {
 public:
  QueueWriter(QueueProgram& program, const BoundPlan& bound, const Call& call, int rank, Protocol protocol,
              bool is_long)
      : plan_(*bound.plan),
        algorithm_(plan_.plan().algorithm),
        element_bytes_(size_of(call.type)),
        rank_(rank),
        protocol_(protocol),
        is_long_(is_long),
        operations_(program.operations),
        places_(program.places),
        flags_(program.flags) {
    if (protocol != Protocol::kSimple) writers_ = writers_of(rank);
  }

  // `is_like_full`: slots of scratch lie where full slices have them.
  void add(const BoundSlice& slice, bool is_like_full, SliceProgram (&programs)[kLongQueues]) {
    const size_t queues = slice.queues.size();
    const size_t most = is_long_ ? kLongQueues : kMostQueues;
    if (queues > most) {
      fail(ErrorCode::kInvalidPlan, "plan ", algorithm_, " has ", queues, " queues on rank ", rank_,
           "; such a launch has at most ", most, " queues a rank");
    }
    for (size_t queue = 0; queue < queues; ++queue) {
      programs[queue] = add_queue(slice, queue);
      // LL, LL128 and long plans only wait for all queues at once.
      if (protocol_ != Protocol::kSimple || is_long_) continue;
      programs[queue].predecessors = is_like_full ? who_touches_what(queue) : everyone();
    }
  }

 private:
  SliceProgram add_queue(const BoundSlice& slice, size_t queue) {
    SliceProgram program;
    program.first = used(operations_);
    since_barrier_.clear();
    for (const BoundOperation& operation : slice.queues[queue]) {
      if (operation.kind == OpKind::kReduce) {
        const bool apart = conflicts(operation, queue);
        // With Simple, each reduce divides its work among the threads of a CTA in its own way, so conflicting ones need
        // a barrier. With LL and LL128, bind() makes every reduce one chunk, and the same warp always handles a word.
        add_reduce(slice, operation, apart && protocol_ == Protocol::kSimple);
        if (!apart) join_copies(program.first);
      } else if (protocol_ == Protocol::kSimple) {
        const bool goes_on = operations_.size() > program.first && operations_.back().kind == operation.kind &&
                             operations_.back().count < kMostFlagsOfRun;
        if (!goes_on) add_run(operation.kind);
        add_flag(operation);
        ++operations_.back().count;
        since_barrier_.clear();
      }
    }
    program.count = static_cast<uint16_t>(operations_.size() - program.first);
    program.ends_with_signals = program.count > 0 && operations_.back().kind == OpKind::kSignal;
    // The queues of a rank may be in different epochs, so only the data of ranks with one queue tells what they have
    // completed.
    const bool one_queue = plan_.report().shape.has_one_queue;
    const bool synchronizes = one_queue && plan_.report().synchronizes;
    program.end.implicit_ack = protocol_ == Protocol::kSimple ? synchronizes : reads_from_all(slice);
    // With LL and LL128, a peer may learn less than this rank does, unless every rank stores to every other in one
    // step.
    program.end.needs_ack = protocol_ == Protocol::kSimple ? !synchronizes : !(one_queue && hear_each_other());
    if (!program.end.needs_ack && !program.end.implicit_ack) {
      fail(ErrorCode::kInternal, "plan ", algorithm_, ": rank ", rank_,
           " would get no acknowledgements, neither explicit nor implicit");
    }
    return program;
  }

  template <class T>
  uint16_t used(const std::vector<T>& items) const {
    if (items.size() > UINT16_MAX) {
      fail(ErrorCode::kResources, "plan ", algorithm_, " has too many operations for a launch on a GPU");
    }
    return static_cast<uint16_t>(items.size());
  }

  void add_run(OpKind kind) {
    DeviceOperation operation;
    operation.kind = kind;
    operation.first = used(flags_);
    operations_.push_back(operation);
  }

  // If the reduce just added is a copy like those before it, joins it to their batch.
  void join_copies(uint16_t first) {
    DeviceOperation& added = operations_.back();
    const auto plain = [](const DeviceOperation& it) {
      return it.kind == OpKind::kReduce && is_copy(it) && it.destinations == 1 && !it.result_is_wide;
    };
    if (!plain(added)) return;
    size_t leader = operations_.size() - 1;
    while (leader > first && operations_[leader].is_batched) --leader;
    if (leader == operations_.size() - 1) {
      if (leader == first) return;
      --leader;
      while (leader > first && operations_[leader].is_batched) --leader;
    }
    DeviceOperation& head = operations_[leader];
    const bool fits =
        protocol_ == Protocol::kSimple || (head.elements == added.elements && !waits_for_own_stores(head, added));
    if (!plain(head) || !fits || head.batch == UINT8_MAX) return;
    ++head.batch;
    added.is_batched = true;
  }

  // A batch of copies reads all sources before it writes any destination. With LL and LL128, a read from scratch waits
  // for a peer, which may wait for a write of this batch: such copies are not in one batch.
  bool waits_for_own_stores(const DeviceOperation& head, const DeviceOperation& added) const {
    const auto in_scratch = [](const DevicePlace& place) { return place.base >= kFirstScratchBase; };
    bool reads = in_scratch(places_[added.first + 1]), writes = in_scratch(places_[added.first]);
    for (int c = 0; c < head.batch; ++c) {
      writes |= in_scratch(places_[head.first + 2 * c]);
      reads |= in_scratch(places_[head.first + 2 * c + 1]);
    }
    return reads && writes;
  }

  void add_flag(const BoundOperation& operation) {
    FlagRef flag;
    flag.number = static_cast<uint16_t>(operation.word_offset / OrdinaryRoom::kSignalStride);
    flag.peer = static_cast<uint16_t>(operation.peer_rank);
    flag.operation = static_cast<uint16_t>(operation.operation);
    flags_.push_back(flag);
  }

  // Whether the reduce touches memory that a reduce since the last barrier writes, or the other way round. Signals and
  // waits are barriers.
  bool conflicts(const BoundOperation& bound, size_t queue) {
    const Operation& operation = plan_.plan().ranks[rank_].queues[queue].operations[bound.operation];
    const bool found = std::any_of(since_barrier_.begin(), since_barrier_.end(), [&](const Operation* it) {
      return conflict(plan_.plan().collective, *it, operation);
    });
    if (found) since_barrier_.clear();
    since_barrier_.push_back(&operation);
    return found;
  }

  void add_reduce(const BoundSlice& slice, const BoundOperation& bound, bool after_barrier) {
    if (bound.elements > UINT32_MAX) {
      fail(ErrorCode::kInvalidArgument, "a piece of ", bound.elements, " elements is more than a channel can count");
    }
    DeviceOperation operation;
    operation.kind = OpKind::kReduce;
    operation.result_is_wide = bound.result_is_wide;
    operation.after_barrier = after_barrier;
    operation.destinations = static_cast<uint8_t>(bound.destination_count);
    operation.sources = static_cast<uint8_t>(bound.source_count);
    operation.count = static_cast<uint8_t>(bound.destination_count + bound.source_count);
    operation.divisor = static_cast<uint16_t>(bound.divisor);
    operation.first = used(places_);
    operation.elements = static_cast<uint32_t>(bound.elements);
    for (int i = 0; i < bound.source_count; ++i) {
      if (bound.has_wide_source && slice.source_is_wide[bound.first_flag + i] != 0) operation.wide_sources |= 1u << i;
    }
    for (int i = 0; i < operation.count; ++i) {
      const BoundPlace& place = slice.places[bound.first_place + i];
      const bool has_flags = protocol_ != Protocol::kSimple && place.base >= kFirstScratchBase;
      const bool is_source = i >= operation.destinations;
      places_.push_back(has_flags ? with_flags(slice, place, is_source) : DevicePlace{place.base, 0, place.offset});
    }
    operations_.push_back(operation);
  }

  // Places in scratch for LL and LL128, where a slot holds one chunk with its flags.
  DevicePlace with_flags(const BoundSlice& slice, const BoundPlace& place, bool is_source) const {
    const size_t chunk_bytes = slice.layout.chunk_elements * element_bytes_;
    const size_t slot = slot_of(slice, place);
    const auto writer = static_cast<uint64_t>(is_source ? writers_.at(slot) : 0);
    return {place.base, writer, slot * stored_bytes(protocol_, chunk_bytes)};
  }

  size_t slot_of(const BoundSlice& slice, const BoundPlace& place) const {
    return place.offset / (slice.layout.chunk_elements * element_bytes_);
  }

  QueueSet everyone() const {
    QueueSet set = 0;
    for_each_queue([&](int rank, size_t queue) { set |= bit(rank, queue); });
    return set;
  }

  // The other queues that touch a slot, or wait for a signal, that this rank's queue `queue` writes.
  QueueSet who_touches_what(size_t queue) const {
    std::set<Slot> slots;
    QueueSet set = 0;
    for (const Operation& operation : plan_.plan().ranks[rank_].queues[queue].operations) {
      if (operation.kind == OpKind::kSignal) set |= bit(operation.peer_rank, static_cast<size_t>(operation.peer_queue));
      for_each_slot(operation, operation.destinations, [&](const Slot& slot) { slots.insert(slot); });
    }
    for_each_queue([&](int rank, size_t other) {
      for (const Operation& operation : plan_.plan().ranks[rank].queues[other].operations) {
        const auto look = [&](const Slot& slot) {
          if (slots.contains(slot)) set |= bit(rank, other);
        };
        for_each_slot(operation, operation.destinations, look);
        for_each_slot(operation, operation.sources, look);
      }
    });
    return set & ~bit(rank_, queue);
  }

  static QueueSet bit(int rank, size_t queue) { return QueueSet{1} << (rank * kMostQueues + static_cast<int>(queue)); }

  template <class Act>
  void for_each_queue(const Act& act) const {
    for (int rank = 0; rank < plan_.plan().rank_count(); ++rank) {
      for (size_t queue = 0; queue < plan_.plan().ranks[rank].queues.size(); ++queue) act(rank, queue);
    }
  }

  using Slot = std::tuple<int, Buffer, int>;  // rank, buffer, number

  template <class Act>
  static void for_each_slot(const Operation& operation, const std::vector<Place>& places, const Act& act) {
    for (const Place& place : places) {
      if (place.buffer == Buffer::kInput || place.buffer == Buffer::kOutput) continue;
      for (int slot = place.slot; slot < place.slot + operation.chunks; ++slot) {
        act(Slot{place.rank, place.buffer, slot});
      }
    }
  }

  // Whether every rank reads what every other has stored, in one step and for messages of any length.
  bool hear_each_other() const {
    if (plan_.plan().chunks_per_block != 1 || !plan_.report().synchronizes || plan_.report().steps > 1) return false;
    for (int rank = 0; rank < plan_.plan().rank_count(); ++rank) {
      std::set<int> heard = {rank};
      const std::vector<int> writers = writers_of(rank);
      for (const Operation& operation : plan_.plan().ranks[rank].queues[0].operations) {
        for_each_slot(operation, operation.sources,
                      [&](const Slot& slot) { heard.insert(writers.at(static_cast<size_t>(std::get<2>(slot)))); });
      }
      if (std::ssize(heard) < plan_.plan().rank_count()) return false;
    }
    return true;
  }

  // Whether this rank, in this slice, reads something that each peer has stored itself. Chunks of short messages may be
  // empty.
  bool reads_from_all(const BoundSlice& slice) const {
    std::set<int> heard;
    for (const BoundOperation& bound : slice.queues[0]) {
      if (bound.kind != OpKind::kReduce) continue;
      for (int i = bound.destination_count; i < bound.destination_count + bound.source_count; ++i) {
        const BoundPlace& place = slice.places[bound.first_place + i];
        if (place.base >= kFirstScratchBase) heard.insert(writers_.at(slot_of(slice, place)));
      }
    }
    heard.erase(rank_);  // its own stores do not count
    return static_cast<int>(heard.size()) == plan_.plan().rank_count() - 1;
  }

  // Finds who writes each of a rank's slots: one rank writes all of it (VerifiedPlan::can_carry_flags()).
  std::vector<int> writers_of(int rank) const {
    std::vector<int> writers(static_cast<size_t>(plan_.plan().ranks[rank].scratch_slots));
    for (int writer = 0; writer < plan_.plan().rank_count(); ++writer) {
      for (const Operation& operation : plan_.plan().ranks[writer].queues[0].operations) {
        for_each_slot(operation, operation.destinations, [&](const Slot& slot) {
          const auto [owner, buffer, number] = slot;
          if (owner == rank && buffer == Buffer::kScratch) writers[static_cast<size_t>(number)] = writer;
        });
      }
    }
    return writers;
  }

  const VerifiedPlan& plan_;
  const std::string& algorithm_;
  const size_t element_bytes_;
  const int rank_;
  const Protocol protocol_;
  const bool is_long_;
  std::vector<int> writers_;  // by slot of this rank; LL and LL128 only
  std::vector<const Operation*> since_barrier_;
  std::vector<DeviceOperation>& operations_;
  std::vector<DevicePlace>& places_;
  std::vector<FlagRef>& flags_;
};

// A channel has the same CTAs from its first slice to its last, so both plans need equally many queues. LL and LL128
// put flags where one plan has its slots, so they cannot change plans.
void check_ending(const Plan& plan, const Plan& ending, Protocol protocol) {
  const bool alike =
      std::equal(plan.ranks.begin(), plan.ranks.end(), ending.ranks.begin(), ending.ranks.end(),
                 [](const RankPlan& a, const RankPlan& b) { return a.queues.size() == b.queues.size(); });
  if (alike && protocol == Protocol::kSimple) return;
  fail(ErrorCode::kInvalidPlan, "plan ", ending.algorithm, " cannot serve the last slices of plan ", plan.algorithm,
       " with ", name(protocol), ": ", alike ? "that needs Simple" : "their ranks have different numbers of queues");
}

bool is_same(const SliceLayout& a, const SliceLayout& b) { return a.block_elements == b.block_elements; }

}  // namespace

QueueProgram make_queue_program(const BoundPlan& bound, const Call& call, int rank, Protocol protocol,
                                const BoundPlan* ending, bool is_long) {
  const BoundPlan& end = ending != nullptr ? *ending : bound;
  if (ending != nullptr) check_ending(bound.plan->plan(), end.plan->plan(), protocol);
  QueueProgram program = {};
  program.slices = bound.slices;
  program.slice_bytes = bound.slice_bytes;
  program.queues = static_cast<int>(bound.last.queues.size());
  const bool all_alike = bound.slices < 2 || is_same(bound.full.layout, bound.last.layout);
  const auto copy = [](const SliceProgram(&from)[kLongQueues], SliceProgram(&to)[kLongQueues]) {
    std::copy(std::begin(from), std::end(from), to);
  };
  QueueWriter of_end(program, end, call, rank, protocol, is_long);
  of_end.add(end.last, ending == nullptr && all_alike, program.last);
  if (all_alike) {
    copy(program.last, program.ending);
  } else {
    of_end.add(end.full, ending == nullptr, program.ending);
  }
  if (ending == nullptr) {
    copy(program.ending, program.full);
  } else if (bound.slices > 1) {
    QueueWriter(program, bound, call, rank, protocol, is_long).add(bound.full, true, program.full);
  }
  return program;
}

}  // namespace plait
