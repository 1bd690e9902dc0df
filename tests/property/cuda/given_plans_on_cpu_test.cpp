// Plans that no algorithm made, run by the kernels on a CPU: some written by hand, others changed at random. Every plan
// that the verifier accepts and a launch can carry gives right results in every protocol, also when calls reuse its
// memory again and again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/signals.hpp"
#include "api/given_plan.hpp"
#include "api/long_launch.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "plan/builder.hpp"
#include "plan/text.hpp"
#include "property/cuda/given_world.hpp"
#include "property/plan_mutations.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"
#include "support/algorithm_plans.hpp"

namespace plait {
namespace {

// The verified plan, if GPUs accept it.
std::optional<VerifiedPlan> accepted(const Plan& plan) {
  try {
    VerifiedPlan verified = verify(plan);
    check_given(verified, plan.rank_count(), gpu_plan_limits(), true);
    if (verified.plan().access == Access::kStaged) return verified;
  } catch (const Error&) {
  }
  return std::nullopt;
}

// Runs the plan in each protocol that can perform it, and returns how many did.
int expect_right(const VerifiedPlan& plan, uint64_t seed, std::map<Protocol, int>& calls) {
  int protocols = 0;
  for (const DataType type : {DataType::kInt32, DataType::kBfloat16}) {
    for (const Protocol protocol : {Protocol::kSimple, Protocol::kLl, Protocol::kLl128}) {
      if (protocol != Protocol::kSimple && !plan.can_carry_flags(type)) continue;
      SCOPED_TRACE(join(plan.plan().algorithm, ", ", name(protocol), ", ", name(type), ", seed ", seed));
      test::GivenWorld world(plan.plan().rank_count(), seed, UINT64_MAX);
      const bool finds_races = seed % 8 == 0;
      if (finds_races) world.find_races();
      LaunchShape shape{protocol, 1 + static_cast<int>(seed % 2), kLeastThreads};
      const Call any = call_by(plan, type, ReduceOp::kSum, 600);
      // Some short plans are launched as long ones, too.
      const bool may_be_long = protocol == Protocol::kSimple;
      shape.is_long = may_be_long && (seed % 4 == 1 || needs_long_launch(plan, any, shape));
      BindLimits limits = CudaRank::limits(shape, plan.plan());
      limits.least_slice_bytes = 1;
      bool is_carried = true;
      for (int call = 0; call < 6 && is_carried; ++call) {
        auto count = static_cast<size_t>(world.pick(1, call % 2 == 0 ? 40 : 600));
        // Kernels read more than they use of the words at the ends of a place, which the detector takes for a race.
        if (finds_races) count = (count + 7) / 8 * 8;
        Call made = call_by(plan, type, ReduceOp::kSum, count);
        made.type = type;  // also for a barrier, since the test has kernels for these types only
        is_carried = world.add(plan, made, shape, limits);
      }
      EXPECT_NO_THROW(world.run());
      world.check();
      if (testing::Test::HasFailure()) std::cout << to_text(plan.plan());
      protocols += is_carried;
      calls[protocol] += is_carried;
    }
  }
  return protocols;
}

// ---- By hand.

// A broadcast with one step, in which each rank signals to every other, though only the root stores anything. With LL
// and LL128, signals without data acknowledge nothing.
TEST(GivenPlansOnCpu, SignalsWithoutDataAcknowledgeNothing) {
  constexpr int kRanks = 3;
  PlanBuilder builder({"test", Collective::kBroadcast, kRanks, 0, 1});
  std::vector<QueueId> queues;
  std::vector<Place> slots;
  for (int rank = 0; rank < kRanks; ++rank) {
    queues.push_back(builder.add_queue(rank, Engine::kSm));
    slots.push_back(builder.take_scratch(rank));
  }
  builder.reduce(queues[0], {output_of(0), slots[1], slots[2]}, {input_of(0)}, 0);
  barrier_among(builder, queues);
  for (int rank = 1; rank < kRanks; ++rank) builder.copy(queues[rank], output_of(rank), slots[rank], 0);
  const VerifiedPlan plan = verify(builder.finish());
  EXPECT_TRUE(plan.report().synchronizes && plan.report().steps == 1);
  std::map<Protocol, int> calls;
  for (uint64_t seed = 1; seed <= 16; ++seed) EXPECT_EQ(expect_right(plan, seed, calls), 6);
}

// One operation reads chunks that several ranks have stored.
TEST(GivenPlansOnCpu, OneOperationReadsChunksOfSeveralRanks) {
  constexpr int kRanks = 4;
  PlanBuilder builder({"test", Collective::kAllGather, kRanks, 0, 1});
  std::vector<QueueId> queues;
  std::vector<Place> slots;
  for (int rank = 0; rank < kRanks; ++rank) {
    queues.push_back(builder.add_queue(rank, Engine::kSm));
    slots.push_back(builder.take_scratch(rank, kRanks));
  }
  for (int from = 0; from < kRanks; ++from) {
    std::vector<Place> all;
    for (int to = 0; to < kRanks; ++to) all.push_back(slot_after(slots[to], from));
    builder.reduce(queues[from], all, {input_of(from)}, from);
  }
  barrier_among(builder, queues);
  for (int to = 0; to < kRanks; ++to) builder.copy(queues[to], output_of(to), slots[to], 0, kRanks);
  const VerifiedPlan plan = verify(builder.finish());
  std::map<Protocol, int> calls;
  for (uint64_t seed = 1; seed <= 16; ++seed) EXPECT_EQ(expect_right(plan, seed, calls), 6);
}

// ---- Plans changed at random.

std::vector<Plan> plans_of_algorithms() {
  std::vector<Plan> plans;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      for (const int ranks : {2, 3, 4}) {
        AlgorithmArguments machine;
        machine.collective = collective;
        machine.ranks = ranks;
        machine.root = has_root(collective) ? 1 : 0;
        machine.engine = Engine::kSm;
        for (const AlgorithmArguments& form : test::forms_of(algorithm, machine, {1, 2})) {
          plans.push_back(algorithm.make(form));
        }
      }
    }
  }
  return plans;
}

TEST(GivenPlansOnCpu, AcceptedPlansGiveRightResults) {
  const char* const text = std::getenv("PLAIT_TEST_SEED");
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 0) : 20250417;
  std::cout << "PLAIT_TEST_SEED=" << seed << "\n";
  test::Random random(seed);
  const std::vector<Plan> plans = plans_of_algorithms();
  std::map<Protocol, int> calls;
  int run = 0;
  for (int attempt = 0; run < 120; ++attempt) {
    ASSERT_LT(attempt, 100'000) << "hardly any changed plan is accepted";
    Plan plan = plans[static_cast<size_t>(test::pick(random, plans.size()))];
    const Plan before = plan;
    const int changes = 1 + test::pick(random, 3);
    for (int change = 0; change < changes; ++change) {
      test::kMutations[test::pick(random, std::size(test::kMutations))].apply(plan, random);
    }
    if (plan == before) continue;
    const auto given = accepted(plan);
    if (!given) continue;
    run += expect_right(*given, random() % 1'000'000, calls) > 0;
    if (HasFailure()) return;
  }
  for (const auto& [protocol, count] : calls) EXPECT_GT(count, 10) << name(protocol);
}

}  // namespace
}  // namespace plait
