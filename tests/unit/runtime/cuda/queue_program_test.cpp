// Programs of the queue kernel, checked on the host: batches and runs, barriers, and the places of flags.
#include "runtime/cuda/lowering/queue_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "plan/builder.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"
#include "support/algorithm_plans.hpp"
#include "support/kernel_plans.hpp"
#include "support/outcome.hpp"

namespace plait {
namespace {

using test::plan_of;

struct Made {
  BoundPlan bound;
  QueueProgram program;
};

Made make(const VerifiedPlan& plan, const Call& call, const LaunchShape& shape, int rank = 0) {
  Made made;
  made.bound = bind(plan, call, rank, CudaRank::limits(shape, plan.plan()));
  made.program = make_queue_program(made.bound, call, rank, shape.protocol);
  return made;
}

Call sum_of(size_t count, Collective collective = Collective::kAllReduce) {
  return {collective, DataType::kFloat32, ReduceOp::kSum, 0, count};
}

TEST(QueueProgram, MergesSignalsAndWaitsAndBatchesCopies) {
  const VerifiedPlan plan = plan_of("flat(store)", Collective::kAllReduce, 4);
  const QueueProgram program = make(plan, sum_of(1 << 20), {Protocol::kSimple, 16, 256}).program;
  ASSERT_EQ(program.queues, 1);
  std::vector<OpKind> kinds;
  for (int i = 0; i < program.last[0].count; ++i) {
    const DeviceOperation& operation = program.operations[program.last[0].first + i];
    kinds.push_back(operation.kind);
    if (operation.kind == OpKind::kSignal) {
      EXPECT_EQ(operation.count, 3);
    }
  }
  // Three copies to peers, a run of signals, a run of waits, the reduce, a run of signals; then results as they arrive.
  const std::vector<OpKind> start = {OpKind::kReduce, OpKind::kReduce, OpKind::kReduce, OpKind::kSignal,
                                     OpKind::kWait,   OpKind::kReduce, OpKind::kSignal};
  ASSERT_GE(kinds.size(), start.size());
  EXPECT_TRUE(std::equal(start.begin(), start.end(), kinds.begin()));
  EXPECT_EQ(program.operations[program.last[0].first].batch, 3);
  EXPECT_TRUE(program.operations[program.last[0].first + 1].is_batched);
  EXPECT_TRUE(program.operations[program.last[0].first + 2].is_batched);
  EXPECT_TRUE(program.last[0].end.implicit_ack);
  EXPECT_FALSE(program.last[0].end.needs_ack);
}

// A reduce reads what an earlier reduce wrote, perhaps with other threads.
TEST(QueueProgram, HasABarrierBeforeAReduceThatReadsAnEarlierResult) {
  PlanBuilder builder({"test", Collective::kAllReduce, 1, 0, 2});
  const QueueId queue = builder.add_queue(0, Engine::kSm);
  const Place slot = builder.take_scratch(0, 2);
  builder.copy(queue, slot, input_of(0), 0);
  builder.copy(queue, slot_after(slot, 1), input_of(0), 1);  // does not touch the first
  builder.copy(queue, output_of(0), slot, 0);
  builder.copy(queue, output_of(0), slot_after(slot, 1), 1);  // both slots are written by now
  const VerifiedPlan plan = verify(builder.finish());
  const QueueProgram program = make(plan, sum_of(1000), {Protocol::kSimple, 1, 64}).program;
  std::vector<bool> barriers;
  for (int i = 0; i < program.last[0].count; ++i) {
    barriers.push_back(program.operations[program.last[0].first + i].after_barrier);
  }
  EXPECT_EQ(barriers, (std::vector<bool>{false, false, true, false}));
}

QueueSet queues(std::vector<std::pair<int, int>> of_ranks) {
  QueueSet set = 0;
  for (const auto& [rank, queue] : of_ranks) set |= QueueSet{1} << (rank * kMostQueues + queue);
  return set;
}

// A queue waits only for queues that have to be done with what it will overwrite.
TEST(QueueProgram, Predecessors) {
  constexpr size_t kLong = 64 << 20;
  const auto program_of = [](const VerifiedPlan& plan, Collective collective, int rank) {
    return make(plan, sum_of(kLong + 100, collective), {Protocol::kSimple, 64, 256}, rank).program;
  };
  const VerifiedPlan push = plan_of("flat(store)", Collective::kAllReduce, 3, 2);
  const QueueProgram of_push = program_of(push, Collective::kAllReduce, 1);
  ASSERT_EQ(of_push.queues, 3);
  EXPECT_EQ(of_push.full[0].predecessors, queues({{0, 1}, {2, 1}}));  // those that combine what it scatters
  EXPECT_EQ(of_push.full[1].predecessors, queues({{0, 2}, {2, 2}}));  // those that copy the results out
  EXPECT_EQ(of_push.full[2].predecessors, QueueSet{0});
  const VerifiedPlan chain = plan_of("chain(store)", Collective::kBroadcast, 3, 4);
  EXPECT_EQ(program_of(chain, Collective::kBroadcast, 0).full[0].predecessors, queues({{1, 0}}));
  EXPECT_EQ(program_of(chain, Collective::kBroadcast, 1).full[0].predecessors, queues({{2, 0}}));
  // A shorter last slice has its slots at other offsets, where they may overlap those of any queue.
  for (int queue = 0; queue < of_push.queues; ++queue) {
    EXPECT_EQ(of_push.last[queue].predecessors,
              queues({{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}, {2, 2}}));
  }
}

// Another plan for the last slice of each channel and for the last slice of all. All queues must be done with the first
// plan's slices before.
TEST(QueueProgram, AnotherPlanForLastSlices) {
  const LaunchShape shape{Protocol::kSimple, 64, 512};
  const VerifiedPlan plan = plan_of("one_shot(store)", Collective::kAllReduce, 2, 2);
  const VerifiedPlan other = plan_of("flat(both)", Collective::kAllReduce, 2);
  const QueueSet everyone = queues({{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  for (const size_t count : {size_t{16} << 20, (size_t{16} << 20) + 100}) {  // the last slice has full size, or not
    const Call call = sum_of(count);
    const Made alone = make(plan, call, shape);
    const BoundPlan ending =
        bind_alike(alone.bound, other, call, 0, CudaRank::limits(shape, other.plan()), {0, call.count});
    const QueueProgram program = make_queue_program(alone.bound, call, 0, shape.protocol, &ending);
    EXPECT_EQ(program.slices, alone.program.slices);
    const auto reduces = [&program](const SliceProgram& slice) {
      std::vector<uint32_t> elements;
      for (int i = slice.first; i < slice.first + slice.count; ++i) {
        if (program.operations[i].kind == OpKind::kReduce) elements.push_back(program.operations[i].elements);
      }
      return elements;
    };
    const auto slice = static_cast<uint32_t>(alone.bound.full.layout.block_elements);
    const auto last = static_cast<uint32_t>(alone.bound.last.layout.block_elements);
    const auto part = static_cast<uint32_t>(ending.full.layout.chunk_elements);
    const auto last_part = static_cast<uint32_t>(ending.last.layout.chunk_elements);
    EXPECT_EQ(reduces(program.full[0]), (std::vector{slice}));
    EXPECT_EQ(reduces(program.ending[0]), (std::vector{3 * part, slice - 3 * part}));
    EXPECT_EQ(reduces(program.last[0]), (std::vector{3 * last_part, last - 3 * last_part}));
    for (int queue = 0; queue < program.queues; ++queue) {
      EXPECT_EQ(program.full[queue].predecessors, alone.program.full[queue].predecessors);
      EXPECT_EQ(program.ending[queue].predecessors, everyone);
      EXPECT_EQ(program.last[queue].predecessors, everyone);
      EXPECT_EQ(alone.program.ending[queue].first, alone.program.full[queue].first);  // there is no other plan
    }
  }
  const VerifiedPlan of_one_queue = plan_of("one_shot(store)", Collective::kAllReduce, 2);
  const Call call = sum_of(size_t{16} << 20);
  const BoundPlan begins = make(plan, call, shape).bound;
  const BoundPlan ends =
      bind_alike(begins, of_one_queue, call, 0, CudaRank::limits(shape, of_one_queue.plan()), {0, call.count});
  const auto mix = [&](int) { make_queue_program(begins, call, 0, shape.protocol, &ends); };
  EXPECT_EQ(test::objection(test::outcome_of(mix, 0), ErrorCode::kInvalidPlan,
                            {"one_shot(store)", "different numbers of queues"}),
            "");
  const auto carry_flags = [&](int) { make_queue_program(ends, call, 0, Protocol::kLl128, &ends); };
  EXPECT_EQ(test::objection(test::outcome_of(carry_flags, 0), ErrorCode::kInvalidPlan, {"with LL128"}), "");
}

// Predecessors are not only queues that get a signal. In this broadcast the root stores to rank 1, and rank 1 signals
// to rank 2, which reads what the root stored, or overwrites it.
TEST(QueueProgram, PredecessorsThatGetNoSignal) {
  for (const bool overwrites : {false, true}) {
    PlanBuilder builder({"test", Collective::kBroadcast, 3});
    std::vector<QueueId> queue;
    std::vector<Place> slots;
    for (int rank = 0; rank < 3; ++rank) {
      queue.push_back(builder.add_queue(rank, Engine::kSm));
      slots.push_back(builder.take_scratch(rank));
    }
    builder.copy(queue[0], slots[1], input_of(0), 0);
    const SignalId first = builder.signal(queue[0], queue[1]);
    builder.copy(queue[0], output_of(0), input_of(0), 0);
    builder.wait(first);
    builder.copy(queue[1], output_of(1), slots[1], 0);
    builder.copy(queue[1], slots[2], slots[1], 0);
    const SignalId second = builder.signal(queue[1], queue[2]);
    builder.wait(second);
    builder.copy(queue[2], output_of(2), overwrites ? slots[2] : slots[1], 0);
    if (overwrites) builder.copy(queue[2], slots[1], slots[2], 0);
    const VerifiedPlan plan = verify(builder.finish());
    const Call call = sum_of(16 << 20, Collective::kBroadcast);
    const QueueProgram root = make(plan, call, {Protocol::kSimple, 1, 64}).program;
    EXPECT_EQ(root.full[0].predecessors, queues({{1, 0}, {2, 0}})) << overwrites;
  }
}

// With LL and LL128, a batch of copies loads everything before it stores anything. If stores to a peer and loads that
// wait for that peer were in one batch, two such ranks would wait for each other for ever.
TEST(QueueProgram, CopiesThatWaitAreNotBatchedWithStores) {
  PlanBuilder builder({"test", Collective::kAllGather, 2});
  const QueueId queue[] = {builder.add_queue(0, Engine::kSm), builder.add_queue(1, Engine::kSm)};
  const Place slot[] = {builder.take_scratch(0), builder.take_scratch(1)};
  for (const int rank : {0, 1}) {
    builder.copy(queue[rank], output_of(rank), input_of(rank), rank);
    builder.copy(queue[rank], slot[1 - rank], input_of(rank), rank);
  }
  const SignalId signals[] = {builder.signal(queue[0], queue[1]), builder.signal(queue[1], queue[0])};
  for (const int rank : {1, 0}) {
    builder.wait(signals[1 - rank]);
    builder.copy(queue[rank], output_of(rank), slot[rank], 1 - rank);
  }
  const VerifiedPlan plan = verify(builder.finish());
  ASSERT_TRUE(plan.can_carry_flags(DataType::kFloat32));
  for (const Protocol protocol : {Protocol::kLl, Protocol::kLl128}) {
    const QueueProgram program = make(plan, sum_of(100, Collective::kAllGather), {protocol, 1, 64}).program;
    for (const DeviceOperation& operation : program.operations) EXPECT_EQ(operation.batch, 1);
  }
}

// Queues of a rank may be in different epochs, so an implicit acknowledgement from one says nothing about the others. A
// rank without acknowledgements would wait for ever, so either all ranks send them or all have implicit ones.
TEST(QueueProgram, AllRanksAcknowledgeIfAnyHasSeveralQueues) {
  PlanBuilder builder({"test", Collective::kBarrier, 2});
  const QueueId first = builder.add_queue(0, Engine::kSm), second = builder.add_queue(0, Engine::kSm);
  const QueueId other = builder.add_queue(1, Engine::kSm);
  const SignalId to_first = builder.signal(other, first), to_second = builder.signal(other, second);
  builder.wait(to_first);
  builder.wait(to_second);
  const SignalId from_first = builder.signal(first, other), from_second = builder.signal(second, other);
  builder.wait(from_first);
  builder.wait(from_second);
  const VerifiedPlan plan = verify(builder.finish());
  ASSERT_TRUE(plan.report().synchronizes);
  for (const int rank : {0, 1}) {
    const Call call{Collective::kBarrier, DataType::kUint8, ReduceOp::kSum, 0, 0};
    const QueueProgram program = make(plan, call, {Protocol::kSimple, 1, 64}, rank).program;
    for (int queue = 0; queue < program.queues; ++queue) {
      EXPECT_EQ(program.last[queue].end, (EpochEnd{.implicit_ack = false, .needs_ack = true})) << rank;
    }
  }
}

// By rank, the bytes of its LL or LL128 memory that slices of one size store, and those that the rank reads.
struct LlRanges {
  using Range = std::tuple<uint64_t, uint64_t, uint64_t>;  // begin, end, and the rank that stores them
  std::map<size_t, std::vector<Range>> stored, read;

  void add(const QueueProgram& program, const SliceProgram& slice, Protocol protocol, DataType type, size_t rank) {
    for (int i = slice.first; i < slice.first + slice.count; ++i) {
      const DeviceOperation& operation = program.operations[i];
      const size_t bytes = stored_bytes(protocol, operation.elements * size_of(type));
      for (int p = 0; p < operation.count; ++p) {
        const DevicePlace& place = program.places[operation.first + p];
        if (place.base < kFirstScratchBase) continue;
        const size_t owner = place.base - kFirstScratchBase;
        const bool stores = p < operation.destinations;
        EXPECT_TRUE(stores || owner == rank);
        (stores ? stored : read)[owner].emplace_back(place.offset, place.offset + bytes, stores ? rank : place.writer);
      }
    }
  }

  void expect_sound(Protocol protocol) {
    const size_t unit = stored_bytes(protocol, 1);
    for (auto& [owner, ranges] : stored) {
      std::sort(ranges.begin(), ranges.end());
      uint64_t end = 0;
      for (const auto& [first, beyond, writer] : ranges) {
        EXPECT_GE(first, end);
        EXPECT_EQ(first % unit, 0u);
        end = beyond;
      }
      EXPECT_LE(end, CudaRank::ll_bytes(protocol));
    }
    for (const auto& [owner, ranges] : read) {
      for (const Range& range : ranges) {
        EXPECT_TRUE(std::binary_search(stored[owner].begin(), stored[owner].end(), range))
            << "that rank does not store it";
      }
    }
  }
};

// Whether the call can be performed with this protocol.
bool has_room_for_flags(const VerifiedPlan& plan, const Call& call, Protocol protocol) {
  LlRanges full, last;
  for (int rank = 0; rank < plan.plan().rank_count(); ++rank) {
    std::optional<Made> made;
    const test::Outcome outcome = test::outcome_of([&](int) { made = make(plan, call, {protocol, 8, 256}, rank); }, 0);
    if (!made) {
      EXPECT_EQ(test::objection(outcome, ErrorCode::kResources, {}), "");
      return false;
    }
    const QueueProgram& program = made->program;
    full.add(program, program.full[0], protocol, call.type, static_cast<size_t>(rank));
    last.add(program, program.last[0], protocol, call.type, static_cast<size_t>(rank));
  }
  full.expect_sound(protocol);
  last.expect_sound(protocol);
  return !full.stored.empty();
}

TEST(QueueProgram, SlotsHaveRoomForFlags) {
  std::map<std::string, int> calls;  // by algorithm and direction
  const auto check = [&calls](const std::string& form, const VerifiedPlan& plan) {
    const Plan& it = plan.plan();
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8}) {
      if (!plan.can_carry_flags(type)) continue;
      for (const Protocol protocol : {Protocol::kLl, Protocol::kLl128}) {
        for (const size_t count : {1, 1000, 33'333, 5'000'001}) {
          const Call call{it.collective, type, ReduceOp::kSum, it.root, count};
          SCOPED_TRACE(join(it.algorithm, ", ", to_text(call), " over ", it.rank_count(), ", ", name(protocol)));
          if (has_room_for_flags(plan, call, protocol)) ++calls[form];
        }
      }
    }
  };
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      for (const int ranks : {2, 3, 4, 8, 12, 13, 16}) {
        for (const int root : has_root(collective) ? std::vector{0, ranks - 1} : std::vector{0}) {
          AlgorithmArguments machine;
          machine.collective = collective;
          machine.ranks = ranks;
          machine.root = root;
          machine.engine = Engine::kSm;
          // With more parts, plans have more steps than a launch can carry.
          for (AlgorithmArguments form : test::forms_of(algorithm, machine, {1, 2})) {
            const VerifiedPlan plan = verify(algorithm.make(form));
            form.parts = 1;
            check(to_text(spec_of(algorithm, form)), plan);
          }
        }
      }
    }
  }
  for (const char* algorithm : {"flat(store)", "one_shot(store)", "chain(store)", "ring"})
    EXPECT_GT(calls[algorithm], 200);
}

// A run has a thread for each flag, so it has no more flags than a CTA has threads.
TEST(QueueProgram, RunsHaveNoMoreFlagsThanACtaHasThreads) {
  constexpr int kParts = 40;
  const VerifiedPlan plan = plan_of("binomial", Collective::kBroadcast, 4, kParts);
  const Call call = sum_of(1, Collective::kBroadcast);  // all parts but one are empty, so their signals are neighbours
  int signals = 0;
  const QueueProgram program = make(plan, call, {Protocol::kSimple, 1, kLeastThreads}).program;
  for (const DeviceOperation& operation : program.operations) {
    if (operation.kind == OpKind::kReduce) continue;
    EXPECT_LE(operation.count, kLeastThreads);
    if (operation.kind == OpKind::kSignal) signals += operation.count;
  }
  EXPECT_EQ(signals, 2 * kParts);  // to two children
}

TEST(QueueProgram, TooManyQueuesAreRefused) {
  Plan plan = make_plan("flat(store)", [] {
    AlgorithmArguments arguments;
    arguments.ranks = 2;
    return arguments;
  }());
  for (RankPlan& rank : plan.ranks) rank.queues.resize(5);
  const VerifiedPlan verified = verify(std::move(plan));
  const test::Outcome outcome =
      test::outcome_of([&](int) { make(verified, sum_of(100), {Protocol::kSimple, 1, 64}); }, 0);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kInvalidPlan, {"5 queues", "at most 3"}), "");
}

}  // namespace
}  // namespace plait
