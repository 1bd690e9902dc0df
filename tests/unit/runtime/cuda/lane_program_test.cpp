// Programs of the lane kernel, checked on the host: what is performed together, where barriers are, where flags go.
#include "runtime/cuda/lane_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/algorithm.hpp"
#include "plan/builder.hpp"
#include "runtime/cuda/cuda_rank.hpp"
#include "support/outcome.hpp"

namespace plait {
namespace {

VerifiedPlan plan_of(const std::string& algorithm, Collective collective, int ranks, int pipeline = 1) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.pipeline = pipeline;
  arguments.engine = Engine::kSm;
  return verify(make_plan(algorithm, arguments));
}

struct Made {
  BoundPlan bound;
  LaneProgram program;
};

Made make(const VerifiedPlan& plan, const Call& call, const LaunchShape& shape, int rank = 0) {
  Made made;
  made.bound = bind(plan, call, rank, CudaRank::limits(shape, plan.plan()));
  made.program = make_lane_program(made.bound, call, rank, shape.protocol);
  return made;
}

Call sum_of(size_t count, Collective collective = Collective::kAllReduce) {
  return {collective, DataType::kFloat32, ReduceOp::kSum, 0, count};
}

TEST(LaneProgram, JoinsSignalsWaitsAndCopies) {
  const VerifiedPlan plan = plan_of("push", Collective::kAllReduce, 4);
  const LaneProgram program = make(plan, sum_of(1 << 20), {Protocol::kSignals, 16, 256}).program;
  ASSERT_EQ(program.lanes, 1);
  std::vector<OpKind> kinds;
  for (int i = 0; i < program.last[0].count; ++i) {
    const DeviceOperation& operation = program.operations[program.last[0].first + i];
    kinds.push_back(operation.kind);
    if (operation.kind == OpKind::kSignal) {
      EXPECT_EQ(operation.count, 3);
    }
  }
  // Three copies to peers, then one run of signals, one of waits, the fold, signals; results as they come.
  const std::vector<OpKind> start = {OpKind::kFold, OpKind::kFold, OpKind::kFold,  OpKind::kSignal,
                                     OpKind::kWait, OpKind::kFold, OpKind::kSignal};
  ASSERT_GE(kinds.size(), start.size());
  EXPECT_TRUE(std::equal(start.begin(), start.end(), kinds.begin()));
  EXPECT_EQ(program.operations[program.last[0].first].together, 3);
  EXPECT_TRUE(program.operations[program.last[0].first + 1].is_done_before);
  EXPECT_TRUE(program.operations[program.last[0].first + 2].is_done_before);
  EXPECT_TRUE(program.last[0].end.hears_everyone);
  EXPECT_FALSE(program.last[0].end.is_awaited);
}

// A fold that reads what the fold before it wrote: other threads may have written it.
TEST(LaneProgram, BarriersWhereAFoldTouchesWhatAnotherWrote) {
  PlanBuilder builder({"test", Collective::kAllReduce, 1, 0, 2});
  const LaneId lane = builder.add_lane(0, Engine::kSm);
  const Place slot = builder.take_scratch(0, 2);
  builder.copy(lane, slot, input_of(0), 0);
  builder.copy(lane, slot_after(slot, 1), input_of(0), 1);  // apart from the first
  builder.copy(lane, output_of(0), slot, 0);
  builder.copy(lane, output_of(0), slot_after(slot, 1), 1);  // both are written by now
  const VerifiedPlan plan = verify(builder.finish());
  const LaneProgram program = make(plan, sum_of(1000), {Protocol::kSignals, 1, 64}).program;
  std::vector<bool> barriers;
  for (int i = 0; i < program.last[0].count; ++i) {
    barriers.push_back(program.operations[program.last[0].first + i].after_barrier);
  }
  EXPECT_EQ(barriers, (std::vector<bool>{false, false, true, false}));
}

LaneSet lanes(std::vector<std::pair<int, int>> of_ranks) {
  LaneSet set = 0;
  for (const auto& [rank, lane] : of_ranks) set |= LaneSet{1} << (rank * kMostLanes + lane);
  return set;
}

// A lane waits only for those that have to be done with what it is about to overwrite.
TEST(LaneProgram, Predecessors) {
  constexpr size_t kLong = 64 << 20;
  const auto program_of = [](const VerifiedPlan& plan, Collective collective, int rank) {
    return make(plan, sum_of(kLong + 100, collective), {Protocol::kSignals, 64, 256}, rank).program;
  };
  const VerifiedPlan push = plan_of("push", Collective::kAllReduce, 3, 2);
  const LaneProgram of_push = program_of(push, Collective::kAllReduce, 1);
  ASSERT_EQ(of_push.lanes, 3);
  EXPECT_EQ(of_push.full[0].predecessors, lanes({{0, 1}, {2, 1}}));  // who combines what this one scatters
  EXPECT_EQ(of_push.full[1].predecessors, lanes({{0, 2}, {2, 2}}));  // who copies the results out
  EXPECT_EQ(of_push.full[2].predecessors, LaneSet{0});
  const VerifiedPlan chain = plan_of("chain_push", Collective::kBroadcast, 3, 4);
  EXPECT_EQ(program_of(chain, Collective::kBroadcast, 0).full[0].predecessors, lanes({{1, 0}}));
  EXPECT_EQ(program_of(chain, Collective::kBroadcast, 1).full[0].predecessors, lanes({{2, 0}}));
  // In a last slice that is shorter, slots lie elsewhere, so over anybody's.
  for (int lane = 0; lane < of_push.lanes; ++lane) {
    EXPECT_EQ(of_push.last[lane].predecessors,
              lanes({{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}, {2, 2}}));
  }
}

TEST(LaneProgram, SlotsHaveRoomForFlags) {
  for (const Protocol protocol : {Protocol::kPackets, Protocol::kLines}) {
    for (const int ranks : {2, 4, 16}) {
      for (const size_t count : {size_t{1}, size_t{1000}, size_t{100'000}, size_t{5'000'000}}) {
        const VerifiedPlan plan = plan_of("push", Collective::kAllReduce, ranks);
        const LaunchShape shape{protocol, 8, 256};
        const Call call = sum_of(count);
        const Made made = make(plan, call, shape, ranks - 1);
        std::vector<std::pair<uint64_t, uint64_t>> used;  // of the rank's own scratch
        for (const DeviceOperation& operation : made.program.operations) {
          const size_t bytes = stored_bytes(protocol, operation.elements * size_of(call.type));
          for (int i = operation.destinations; i < operation.count; ++i) {
            const DevicePlace& place = made.program.places[operation.first + i];
            if (place.base >= kFirstScratchBase) used.emplace_back(place.offset, place.offset + bytes);
          }
        }
        std::sort(used.begin(), used.end());
        used.erase(std::unique(used.begin(), used.end()), used.end());
        const SliceProgram& last = made.program.last[0];
        for (size_t i = 1; i < used.size() && made.program.full[0].first == last.first; ++i) {
          EXPECT_LE(used[i - 1].second, used[i].first) << name(protocol) << ", " << ranks << " ranks, " << count;
        }
        ASSERT_FALSE(used.empty());
        EXPECT_LE(used.back().second, CudaRank::flagged_bytes(protocol));
      }
    }
  }
}

TEST(LaneProgram, OnlySomePlansCarryFlags) {
  for (const char* algorithm : {"push", "one_shot_push"}) {
    EXPECT_TRUE(can_carry_flags(plan_of(algorithm, Collective::kAllReduce, 4), DataType::kBfloat16)) << algorithm;
  }
  EXPECT_FALSE(can_carry_flags(plan_of("push", Collective::kAllReduce, 4, 2), DataType::kFloat32));  // several lanes
  EXPECT_FALSE(can_carry_flags(plan_of("flat", Collective::kAllReduce, 4), DataType::kFloat32));     // reads of peers
  EXPECT_FALSE(can_carry_flags(plan_of("push", Collective::kBarrier, 4), DataType::kFloat32));
}

// A run has a thread for each word, and a CTA no more than it has.
TEST(LaneProgram, RunsOfWordsAreNoLongerThanACtaHasThreads) {
  constexpr int kParts = 40;
  const VerifiedPlan plan = plan_of("binomial", Collective::kBroadcast, 4, kParts);
  const Call call = sum_of(1, Collective::kBroadcast);  // all parts but one are empty, so their signals are neighbours
  int signals = 0;
  const LaneProgram program = make(plan, call, {Protocol::kSignals, 1, kLeastThreads}).program;
  for (const DeviceOperation& operation : program.operations) {
    if (operation.kind == OpKind::kFold) continue;
    EXPECT_LE(operation.count, kLeastThreads);
    if (operation.kind == OpKind::kSignal) signals += operation.count;
  }
  EXPECT_EQ(signals, 2 * kParts);  // to two children
}

TEST(LaneProgram, TooManyLanesAreRefused) {
  Plan plan = make_plan("push", [] {
    AlgorithmArguments arguments;
    arguments.ranks = 2;
    return arguments;
  }());
  for (RankPlan& rank : plan.ranks) rank.lanes.resize(5);
  const VerifiedPlan verified = verify(std::move(plan));
  const test::Outcome outcome =
      test::outcome_of([&](int) { make(verified, sum_of(100), {Protocol::kSignals, 1, 64}); }, 0);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kInvalidPlan, {"5 lanes", "at most 3"}), "");
}

}  // namespace
}  // namespace plait
