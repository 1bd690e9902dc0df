// Compares binding with an independent computation of where every chunk of every operation must lie.
#include "runtime/bound_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "algorithms/algorithm.hpp"
#include "plan/builder.hpp"
#include "support/algorithm_plans.hpp"
#include "support/outcome.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

BindLimits limits_of(size_t scratch_bytes, int signals = 10'000) {
  BindLimits limits;
  limits.scratch_bytes = scratch_bytes;
  limits.signals = signals;
  return limits;
}

VerifiedPlan plan_of(const std::string& algorithm, Collective collective, int ranks, int parts = 1, int root = 0) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.parts = parts;
  arguments.root = root;
  return verify(make_plan(algorithm, arguments));
}

// ---- The independent computation.

class Expected {
 public:
  Expected(const VerifiedPlan& verified, const Call& call, int rank, size_t slice)
      : verified_(verified), plan_(verified.plan()), call_(call), rank_(rank), slice_(slice) {
    const size_t granule = 128 / element();
    const size_t parts = static_cast<size_t>(plan_.chunks_per_block);
    chunk_ = (slice + parts - 1) / parts;
    chunk_ = (chunk_ + granule - 1) / granule * granule;
    bool wide = false;
    for (const auto& queues : verified.report().facts) {
      for (const auto& queue : queues) {
        for (const ReduceFacts& facts : queue) wide |= facts.result_is_partial;
      }
    }
    slot_bytes_ = chunk_ * (wide ? accumulator_size_of(call.type) : element());
  }

  size_t element() const { return size_of(call_.type); }
  size_t slot_bytes() const { return slot_bytes_; }

  size_t elements(int chunk) const {
    const size_t begin = within_block(chunk) * chunk_;
    return begin >= slice_ ? 0 : std::min(chunk_, slice_ - begin);
  }

  // Returns where chunk `chunk` of an operation that begins with chunk `first` lies.
  BoundPlace place(const Place& place, int first, int chunk) const {
    if (place.buffer == Buffer::kInput || place.buffer == Buffer::kOutput) {
      const bool is_input = place.buffer == Buffer::kInput;
      const bool own_block_only = is_input ? gathers(plan_.collective) : scatters(plan_.collective);
      size_t block = own_block_only ? 0 : static_cast<size_t>(chunk / plan_.chunks_per_block);
      const size_t ranks = static_cast<size_t>(plan_.rank_count());
      if (plan_.collective == Collective::kAllToAll) block = is_input ? block % ranks : block / ranks;
      return {is_input ? 0u : 1u, (block * call_.count + within_block(chunk) * chunk_) * element()};
    }
    const int before = place.buffer == Buffer::kHost ? plan_.ranks[place.rank].scratch_slots : 0;
    return {2 + static_cast<uint32_t>(place.rank),
            static_cast<size_t>(before + place.slot + chunk - first) * slot_bytes_};
  }

  // The bound operations of a queue must be the plan's, in order, with each reduce cut into contiguous pieces.
  void expect_queue(const BoundSlice& slice, size_t queue, bool chunk_by_chunk) const {
    const std::vector<BoundOperation>& bound = slice.queues.at(queue);
    const auto& operations = plan_.ranks[rank_].queues.at(queue).operations;
    size_t next = 0;
    for (size_t i = 0; i < operations.size(); ++i) {
      if (operations[i].kind == OpKind::kReduce) {
        expect_reduce(slice, queue, i, chunk_by_chunk, next);
        continue;
      }
      ASSERT_LT(next, bound.size());
      EXPECT_EQ(bound[next].kind, operations[i].kind);
      EXPECT_EQ(bound[next].peer_rank, operations[i].peer_rank);
      if (operations[i].kind == OpKind::kSend || operations[i].kind == OpKind::kReceive) {
        expect_message(slice, bound[next], operations[i]);
      } else {
        EXPECT_EQ(bound[next].word_offset, static_cast<size_t>(operations[i].number) * 64);
      }
      EXPECT_EQ(bound[next].operation, static_cast<int>(i));
      ++next;
    }
    EXPECT_EQ(next, bound.size());
  }

 private:
  size_t within_block(int chunk) const { return static_cast<size_t>(chunk % plan_.chunks_per_block); }

  // A message of one chunk between ranks of one host.
  void expect_message(const BoundSlice& slice, const BoundOperation& bound, const Operation& operation) const {
    ASSERT_TRUE(bound.in_memory);
    ASSERT_EQ(operation.chunks, 1);
    const bool sends = operation.kind == OpKind::kSend;
    const size_t count = elements(operation.chunk);
    EXPECT_EQ(bound.bytes, count * element());
    const Place& user = sends ? operation.sources[0] : operation.destinations[0];
    const BoundPlace& actual = slice.places.at(bound.first_place);
    const BoundPlace expected = place(user, operation.chunk, operation.chunk);
    if (count > 0) {
      EXPECT_EQ(actual.base, expected.base);
      EXPECT_EQ(actual.offset, expected.offset);
    }
    const int receiver = sends ? operation.peer_rank : rank_;
    EXPECT_EQ(slice.places.at(bound.first_place + 1).base, 2 + static_cast<uint32_t>(receiver));
    EXPECT_EQ(slice.places.at(bound.first_place + 1).offset, bound.inbox.offset);
    EXPECT_EQ(bound.message, operation.number);
  }

  void expect_reduce(const BoundSlice& slice, size_t queue, size_t i, bool chunk_by_chunk, size_t& next) const {
    const Operation& operation = plan_.ranks[rank_].queues[queue].operations[i];
    const ReduceFacts& facts = verified_.report().facts[rank_][queue][i];
    for (int chunk = operation.chunk; chunk < operation.chunk + operation.chunks;) {
      if (elements(chunk) == 0) {
        ++chunk;
        continue;
      }
      ASSERT_LT(next, slice.queues[queue].size());
      const BoundOperation& bound = slice.queues[queue][next++];
      ASSERT_EQ(bound.kind, OpKind::kReduce);
      EXPECT_EQ(bound.operation, static_cast<int>(i));
      expect_facts(slice, bound, facts);
      const int first = chunk;
      for (size_t done = 0; done < bound.elements; ++chunk) {
        ASSERT_LT(chunk, operation.chunk + operation.chunks) << "a piece is longer than its operation";
        expect_places(slice, bound, operation, chunk, done);
        done += elements(chunk);
        ASSERT_LE(done, bound.elements) << "a piece ends within a chunk";
      }
      EXPECT_TRUE(!chunk_by_chunk || chunk == first + 1);
    }
  }

  void expect_facts(const BoundSlice& slice, const BoundOperation& bound, const ReduceFacts& facts) const {
    const bool narrow = accumulates_in_float32(call_.type);
    EXPECT_EQ(bound.result_is_wide, narrow && facts.result_is_partial);
    EXPECT_EQ(bound.divisor, facts.finishes ? divisor_of(call_.op, plan_.rank_count()) : 0);
    bool any = false;
    for (int s = 0; s < bound.source_count; ++s) {
      const bool wide = slice.source_is_wide.at(bound.first_flag + static_cast<size_t>(s)) != 0;
      EXPECT_EQ(wide, narrow && facts.source_is_partial[static_cast<size_t>(s)] != 0);
      any |= wide;
    }
    EXPECT_EQ(bound.has_wide_source, any);
  }

  // Element `done` of the piece is the first of `chunk`, in every place.
  void expect_places(const BoundSlice& slice, const BoundOperation& bound, const Operation& operation, int chunk,
                     size_t done) const {
    std::vector<Place> places = operation.destinations;
    places.insert(places.end(), operation.sources.begin(), operation.sources.end());
    ASSERT_EQ(static_cast<size_t>(bound.destination_count), operation.destinations.size());
    ASSERT_EQ(static_cast<size_t>(bound.source_count), operation.sources.size());
    ASSERT_LE(static_cast<int>(places.size()), slice.most_places);
    for (size_t p = 0; p < places.size(); ++p) {
      const BoundPlace& actual = slice.places.at(bound.first_place + p);
      const BoundPlace expected = place(places[p], operation.chunk, chunk);
      const bool destination = p < operation.destinations.size();
      const bool wide = destination
                            ? bound.result_is_wide
                            : slice.source_is_wide.at(bound.first_flag + p - operation.destinations.size()) != 0;
      EXPECT_EQ(actual.base, expected.base);
      EXPECT_EQ(actual.offset + done * (wide ? accumulator_size_of(call_.type) : element()), expected.offset)
          << "chunk " << chunk << " of place " << p;
    }
  }

  const VerifiedPlan& verified_;
  const Plan& plan_;
  const Call& call_;
  const int rank_;
  const size_t slice_;
  size_t chunk_ = 0;  // elements
  size_t slot_bytes_ = 0;
};

void expect_slice(const VerifiedPlan& plan, const Call& call, int rank, const BoundSlice& slice, size_t elements,
                  const BindLimits& limits) {
  const Expected expected(plan, call, rank, elements);
  ASSERT_EQ(slice.queues.size(), plan.plan().ranks[static_cast<size_t>(rank)].queues.size());
  for (size_t queue = 0; queue < slice.queues.size(); ++queue)
    expected.expect_queue(slice, queue, limits.chunk_by_chunk);
  for (const RankPlan& ranks : plan.plan().ranks) {
    EXPECT_LE(static_cast<size_t>(ranks.scratch_slots + ranks.host_slots) * expected.slot_bytes(),
              limits.scratch_bytes);
  }
}

void expect_right(const VerifiedPlan& plan, const Call& call, const BindLimits& limits) {
  SCOPED_TRACE(plan.plan().algorithm + ", " + to_text(call) + ", scratch " + std::to_string(limits.scratch_bytes));
  for (int rank = 0; rank < plan.plan().rank_count(); ++rank) {
    const BoundPlan bound = bind(plan, call, rank, limits);
    ASSERT_GE(bound.slices, 1u);
    const size_t full = bound.slice_bytes / size_of(call.type);
    const size_t before_last = (bound.slices - 1) * full;
    if (bound.slices > 1) {
      ASSERT_LT(before_last, call.count);
      ASSERT_LE(call.count - before_last, full);
      expect_slice(plan, call, rank, bound.full, full, limits);
    }
    expect_slice(plan, call, rank, bound.last, call.count - before_last, limits);
  }
}

std::vector<DeviceLink> links_in_circle(int ranks) {
  std::vector<DeviceLink> links;
  for (int a = 0; a + 1 < ranks; ++a) {
    links.push_back({a, a + 1, 25});
    if (a == 0 && ranks > 2) links.push_back({0, ranks - 1, 25});
  }
  return links;
}

// ---- Tests.

// Room for a chunk of the least size in each slot.
size_t least_scratch(const VerifiedPlan& plan) {
  constexpr size_t kLeastChunk = 512;
  size_t slots = 0;
  for (const RankPlan& rank : plan.plan().ranks) {
    slots = std::max(slots, static_cast<size_t>(rank.scratch_slots + rank.host_slots));
  }
  return slots * kLeastChunk;
}

TEST(BoundPlan, EveryAlgorithmWithRandomCountsAndTypes) {
  test::Random random(test::run_seed());
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      if (collective == Collective::kBarrier) continue;
      for (const int ranks : {1, 2, 3, 6}) {
        AlgorithmArguments machine;
        machine.collective = collective;
        machine.ranks = ranks;
        machine.root = static_cast<int>(random() % static_cast<uint64_t>(ranks));
        machine.links = links_in_circle(ranks);
        const auto forms = test::forms_of(algorithm, machine, {1, 2, 3});
        if (forms.empty()) continue;
        const int root = machine.root;
        for (int i = 0; i < 12; ++i) {
          const VerifiedPlan plan = verify(algorithm.make(test::any_of(random, forms)));
          Call call{collective, static_cast<DataType>(random() % kDataTypeCount), ReduceOp::kSum, root, 0};
          if (reduces(collective)) call.op = test::any_of(random, reductions_of(call.type));
          call.count = test::one_in(random, 3) ? random() % 9 : random() % 30'000;
          BindLimits limits = limits_of(std::max(least_scratch(plan), 32'768 + 1000 * (random() % 60)));
          limits.chunk_by_chunk = test::one_in(random, 2);
          expect_right(plan, call, limits);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(BoundPlan, CutsAMessageIntoEvenSlicesThatFit) {
  const VerifiedPlan plan = plan_of("one_shot", Collective::kAllReduce, 2);
  const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 2500};
  const BoundPlan bound = bind(plan, call, 0, limits_of(4096));  // at most 1024 elements a slice
  EXPECT_EQ(bound.slices, 3u);
  EXPECT_EQ(bound.slice_bytes, 864u * 4);  // 2500 / 3, rounded up to 128 bytes
  EXPECT_EQ(
      bind(plan, {Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1024}, 0, limits_of(4096)).slices, 1u);
  EXPECT_EQ(
      bind(plan, {Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1025}, 0, limits_of(4096)).slices, 2u);
}

// A part is bound like a message of its size, but lies further on in every block.
TEST(BoundPlan, APartLiesWhereItBegins) {
  for (const char* algorithm : {"flat(store)", "ring"}) {
    const VerifiedPlan plan = plan_of(algorithm, Collective::kAllGather, 3);
    const Call call{Collective::kAllGather, DataType::kInt32, ReduceOp::kSum, 0, 9000};
    const BlockPart part{3200, 5000};
    const BoundPlan bound = bind(plan, call, 1, limits_of(4096), part);
    Call alone = call;
    alone.count = part.count;
    const BoundPlan expected = bind(plan, alone, 1, limits_of(4096));
    EXPECT_EQ(bound.slices, expected.slices);
    EXPECT_GT(bound.slices, 1u);
    EXPECT_EQ(bound.slice_bytes, expected.slice_bytes);
    for (const auto slice : {&BoundPlan::full, &BoundPlan::last}) {
      const std::vector<BoundPlace>&places = (bound.*slice).places, &others = (expected.*slice).places;
      ASSERT_EQ(places.size(), others.size());
      for (size_t i = 0; i < places.size(); ++i) {
        ASSERT_EQ(places[i].base, others[i].base);
        const bool callers = places[i].base == kInputBase || places[i].base == kOutputBase;
        const size_t block = callers ? others[i].offset / (alone.count * sizeof(int32_t)) : 0;
        const size_t further = callers ? (block * (call.count - alone.count) + part.first) * sizeof(int32_t) : 0;
        EXPECT_EQ(places[i].offset, others[i].offset + further);
      }
    }
  }
}

// Another plan takes the slices of the first, although it would have others by itself.
TEST(BoundPlan, AlikeInSlices) {
  const VerifiedPlan plan = plan_of("one_shot(store)", Collective::kAllReduce, 2);
  const VerifiedPlan other = plan_of("flat(both)", Collective::kAllReduce, 2);
  for (const size_t count : {5000u, 1000u, 0u}) {
    const Call call{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count};
    const BlockPart part{count / 5, count - count / 5};
    const BoundPlan bound = bind(plan, call, 1, limits_of(4096), part);
    const BoundPlan alike = bind_alike(bound, other, call, 1, limits_of(1 << 20), part);
    EXPECT_EQ(alike.plan, &other);
    EXPECT_EQ(alike.slices, bound.slices);
    EXPECT_EQ(alike.last.layout.block_elements, bound.last.layout.block_elements);
    if (bound.slices > 1) {
      EXPECT_EQ(alike.slice_bytes, bound.slice_bytes);
      EXPECT_EQ(alike.full.layout.block_elements, bound.full.layout.block_elements);
      EXPECT_LT(bind(other, call, 1, limits_of(1 << 20), part).slices, bound.slices);
    }
  }
  const Call call{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 5000};
  const BoundPlan bound = bind(plan, call, 1, limits_of(4096));
  const auto too_small = [&](int) { bind_alike(bound, other, call, 1, limits_of(2048), {0, call.count}); };
  EXPECT_EQ(test::objection(test::outcome_of(too_small, 0), ErrorCode::kResources,
                            {"flat(both, parts=4)", "one_shot(store)"}),
            "");
}

TEST(BoundPlan, SlotsOfUnfinishedReductionsAreWide) {
  const VerifiedPlan plan = plan_of("recursive_doubling", Collective::kAllReduce, 4);
  const size_t narrow =
      bind(plan, {Collective::kAllReduce, DataType::kInt16, ReduceOp::kSum, 0, 1 << 20}, 0, limits_of(1 << 16))
          .slice_bytes;
  const size_t wide =
      bind(plan, {Collective::kAllReduce, DataType::kFloat16, ReduceOp::kSum, 0, 1 << 20}, 0, limits_of(1 << 16))
          .slice_bytes;
  EXPECT_NEAR(static_cast<double>(narrow) / static_cast<double>(wide), 2, 0.1);
}

TEST(BoundPlan, AllRanksCutAlike) {
  for (const char* algorithm : {"binomial", "flat"}) {
    const VerifiedPlan plan = plan_of(algorithm, Collective::kReduce, 7, 1, 3);
    const Call call{Collective::kReduce, DataType::kFloat8E5M2, ReduceOp::kMax, 3, 123'457};
    const BoundPlan first = bind(plan, call, 0, limits_of(20'000));
    EXPECT_GT(first.slices, 1u);
    for (int rank = 1; rank < 7; ++rank) {
      const BoundPlan other = bind(plan, call, rank, limits_of(20'000));
      EXPECT_EQ(other.slices, first.slices);
      EXPECT_EQ(other.slice_bytes, first.slice_bytes);
    }
  }
}

TEST(BoundPlan, NothingToMoveLeavesTheSignals) {
  const VerifiedPlan plan = plan_of("ring", Collective::kAllReduce, 3);
  const Call call{Collective::kAllReduce, DataType::kInt64, ReduceOp::kSum, 0, 0};
  for (int rank = 0; rank < 3; ++rank) {
    const BoundPlan bound = bind(plan, call, rank, limits_of(4096));
    EXPECT_EQ(bound.slices, 1u);
    size_t signals = 0, expected = 0;
    for (const BoundOperation& operation : bound.last.queues[0]) {
      EXPECT_NE(operation.kind, OpKind::kReduce);
      ++signals;
    }
    for (const Operation& operation : plan.plan().ranks[static_cast<size_t>(rank)].queues[0].operations) {
      expected += operation.kind != OpKind::kReduce;
    }
    EXPECT_EQ(signals, expected);
  }
}

TEST(BoundPlan, LargeMessagesGoPastTheCachesToTheOutput) {
  const VerifiedPlan plan = plan_of("flat", Collective::kAllReduce, 2);
  BindLimits limits = limits_of(1 << 16);
  limits.streaming_output_bytes = 4000;
  limits.streaming_scratch_bytes = SIZE_MAX;
  for (const size_t count : {size_t{999}, size_t{1000}}) {
    const BoundPlan bound = bind(plan, {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}, 0, limits);
    size_t to_output = 0, streamed = 0;
    for (const BoundOperation& operation : bound.last.queues[0]) {
      for (int d = 0; operation.kind == OpKind::kReduce && d < operation.destination_count; ++d) {
        const bool output = bound.last.places[operation.first_place + static_cast<size_t>(d)].base == kOutputBase;
        const bool streams = (operation.streaming_outputs >> d & 1) != 0;
        to_output += output;
        streamed += streams;
        EXPECT_TRUE(!streams || output);
        EXPECT_EQ(operation.streaming_scratch, 0u);
      }
    }
    EXPECT_GT(to_output, 0u);
    EXPECT_EQ(streamed, count == 1000 ? to_output : 0);
  }
}

// ---- Data that travels in the cache lines of signals.

BindLimits with_payload(size_t bytes) {
  BindLimits limits = limits_of(1 << 16);
  limits.signal_payload = bytes;
  return limits;
}

bool carries_data(const VerifiedPlan& plan, const Call& call, int rank) {
  bool carries = false;
  const BoundPlan bound = bind(plan, call, rank, with_payload(56));
  for (const BoundOperation& operation : bound.last.queues[0]) carries |= operation.carries_data;
  return carries;
}

TEST(BoundPlan, SmallMessagesTravelInTheirSignals) {
  constexpr int kRanks = 4;
  const VerifiedPlan plan = plan_of("one_shot", Collective::kAllReduce, kRanks);
  const Call call{Collective::kAllReduce, DataType::kInt16, ReduceOp::kSum, 0, 28};
  for (int rank = 0; rank < kRanks; ++rank) {
    const BoundPlan bound = bind(plan, call, rank, with_payload(56));
    size_t signals = 0, read = 0;
    std::vector<size_t> awaited;
    for (const BoundOperation& operation : bound.last.queues[0]) {
      if (operation.kind == OpKind::kWait) awaited.push_back(operation.word_offset);
      if (operation.kind == OpKind::kSignal) {
        ++signals;
        EXPECT_TRUE(operation.carries_data);
        EXPECT_EQ(bound.last.places.at(operation.first_place).base, kFirstScratchBase + static_cast<uint32_t>(rank));
        EXPECT_EQ(bound.last.places.at(operation.first_place).offset, 0u);
      }
      for (int p = 0; operation.kind == OpKind::kReduce && p < operation.destination_count + operation.source_count;
           ++p) {
        const BoundPlace& place = bound.last.places.at(operation.first_place + static_cast<size_t>(p));
        if (place.base != kFirstScratchBase + kRanks) continue;
        ++read;  // right behind a flag that was awaited
        EXPECT_EQ(std::count(awaited.begin(), awaited.end(), place.offset - 8), 1);
        awaited.erase(std::find(awaited.begin(), awaited.end(), place.offset - 8));
      }
    }
    EXPECT_EQ(signals, static_cast<size_t>(kRanks - 1));
    EXPECT_EQ(read, static_cast<size_t>(kRanks - 1));
  }
}

TEST(BoundPlan, OnlyWhatFitsTravelsInSignals) {
  const VerifiedPlan plan = plan_of("one_shot", Collective::kAllReduce, 3);
  Call call{Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, 56};
  EXPECT_TRUE(carries_data(plan, call, 0));
  call.count = 57;
  EXPECT_FALSE(carries_data(plan, call, 0));
  call.count = 0;
  EXPECT_FALSE(carries_data(plan, call, 0));
  call = {Collective::kAllReduce, DataType::kFloat64, ReduceOp::kSum, 0, 7};
  EXPECT_TRUE(carries_data(plan, call, 0));
  call.count = 8;
  EXPECT_FALSE(carries_data(plan, call, 0));
  const VerifiedPlan ring = plan_of("ring", Collective::kAllReduce, 3);
  EXPECT_FALSE(carries_data(ring, {Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, 3}, 0));
}

// Only the root of a broadcast gives, and only that of a reduce gets.
TEST(BoundPlan, WhoeverGivesAloneSendsDataWithSignals) {
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    const VerifiedPlan plan = plan_of("one_shot", collective, 4);
    for (int rank = 0; rank < 4; ++rank) {
      const bool gives = (rank == 0) == (collective == Collective::kBroadcast);
      EXPECT_EQ(carries_data(plan, {collective, DataType::kInt8, ReduceOp::kSum, 0, 56}, rank), gives);
    }
  }
}

// Rank 1 publishes a partial sum, whose elements are wider than the user's.
VerifiedPlan plan_that_publishes_a_sum() {
  PlanBuilder b({"sum in the middle", Collective::kAllReduce, 3, 0, 1});
  std::vector<QueueId> queues;
  std::vector<Place> published;
  for (int rank = 0; rank < 3; ++rank) {
    queues.push_back(b.add_queue(rank, Engine::kCpu));
    published.push_back(b.take_scratch(rank));
  }
  b.copy(queues[0], published[0], input_of(0), 0);
  b.copy(queues[2], published[2], input_of(2), 0);
  b.wait(b.signal(queues[0], queues[1]));
  b.reduce(queues[1], {published[1]}, {published[0], input_of(1)}, 0);
  const SignalId from_two[] = {b.signal(queues[2], queues[0]), b.signal(queues[2], queues[1])};
  const SignalId from_one[] = {b.signal(queues[1], queues[0]), b.signal(queues[1], queues[2])};
  b.wait(from_one[0]);
  b.wait(from_two[0]);
  b.wait(from_two[1]);
  b.wait(from_one[1]);
  b.reduce(queues[0], {output_of(0)}, {published[1], published[2]}, 0);
  b.reduce(queues[1], {output_of(1)}, {published[1], published[2]}, 0);
  b.reduce(queues[2], {output_of(2)}, {published[1], input_of(2)}, 0);
  return verify(b.finish());
}

TEST(BoundPlan, WideDataHasToFitInItsWidth) {
  const VerifiedPlan plan = plan_that_publishes_a_sum();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(carries_data(plan, {Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, 56}, rank));
    EXPECT_TRUE(carries_data(plan, {Collective::kAllReduce, DataType::kFloat8E5M2, ReduceOp::kSum, 0, 14}, rank));
    EXPECT_FALSE(carries_data(plan, {Collective::kAllReduce, DataType::kFloat8E5M2, ReduceOp::kSum, 0, 15}, rank));
  }
}

// ---- Slices that have little scratch and few signals.

TEST(BoundPlan, RanksAgreeOnWhichSlicesAreSmall) {
  constexpr int kRanks = 4;
  const VerifiedPlan plan = plan_of("one_shot", Collective::kReduce, kRanks);  // a slot on each rank but the root
  BindLimits limits = limits_of(1 << 16);
  limits.small_scratch_bytes = 1024;
  const auto are_small = [&](size_t count) {
    std::set<bool> small;
    for (int rank = 0; rank < kRanks; ++rank) {
      small.insert(
          bind(plan, {Collective::kReduce, DataType::kInt8, ReduceOp::kSum, 0, count}, rank, limits).last.is_small);
    }
    EXPECT_EQ(small.size(), 1u);
    return *small.begin();
  };
  limits.small_signals = kRanks - 1;  // of the root
  EXPECT_TRUE(are_small(1024));
  EXPECT_FALSE(are_small(1025));
  limits.small_signals = kRanks - 2;
  EXPECT_FALSE(are_small(1));
  limits.small_signals = kRanks - 1;
  limits.small_scratch_bytes = 0;
  EXPECT_FALSE(are_small(1));
}

// ---- Plans that are refused.

void expect_refused(const VerifiedPlan& plan, const Call& call, const BindLimits& limits, ErrorCode code,
                    const std::vector<std::string>& parts) {
  EXPECT_EQ(test::objection(test::outcome_of([&](int) { bind(plan, call, 0, limits); }, 0), code, parts), "");
}

TEST(BoundPlan, PlansThatDoNotFitAreRefused) {
  const VerifiedPlan ring = plan_of("ring", Collective::kAllReduce, 8);
  const Call call{Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, 10};
  expect_refused(ring, call, limits_of(500), ErrorCode::kResources,
                 {"ring", "scratch slots", "500 bytes", "SCRATCH_KIB"});
  // Elements of one byte each, but four while they add up.
  const Call wide{Collective::kAllReduce, DataType::kFloat8E4M3, ReduceOp::kSum, 0, 10};
  bind(ring, call, 0, limits_of(8 * 128));
  expect_refused(ring, wide, limits_of(8 * 128), ErrorCode::kResources, {"8 scratch slots of 512 bytes"});
  bind(ring, wide, 0, limits_of(8 * 512));
  const int needed = ring.plan().ranks[0].signals;
  bind(ring, call, 0, limits_of(4096, needed));
  expect_refused(ring, call, limits_of(4096, needed - 1), ErrorCode::kResources,
                 {join("needs ", needed, " signals"), "fewer chunks"});
}

TEST(BoundPlan, PlansForOtherMachinesAreRefused) {
  AlgorithmArguments arguments;
  arguments.ranks = 4;
  arguments.node_of = {0, 0, 1, 1};
  const Call call{Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, 1000};
  expect_refused(verify(make_plan("ring", arguments)), call, limits_of(1 << 16), ErrorCode::kInvalidPlan, {"node"});
  arguments.node_of.clear();
  arguments.access = Access::kZeroCopy;
  expect_refused(verify(make_plan("ring", arguments)), call, limits_of(1 << 16), ErrorCode::kInvalidPlan, {"access"});
}

}  // namespace
}  // namespace plait
