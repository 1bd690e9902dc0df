// Plans that no algorithm made, run by the kernels on a CPU: some written by hand, others changed at random. Every plan
// that the verifier accepts and a launch can carry gives right results in every protocol, also when calls reuse its
// memory again and again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/signals.hpp"
#include "api/given_plan.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "plan/builder.hpp"
#include "plan/text.hpp"
#include "property/plan_mutations.hpp"
#include "runtime/cuda/kernels/prepared_launch.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"
#include "support/algorithm_plans.hpp"
#include "support/call_buffers.hpp"
// clang-format off: ahead of all kernels
#include "support/simt_world.hpp"
// clang-format on
#include "property/cuda/kernel_bodies.hpp"

namespace plait {
namespace {

class GivenWorld : public test::SimtWorld {
 public:
  using SimtWorld::SimtWorld;

  // Adds one call of all ranks. False: the plan is too long for a launch.
  bool add(const VerifiedPlan& plan, const Call& call, const LaunchShape& shape, const BindLimits& limits) {
    Made& made = calls_.emplace_back();
    made.call = call;
    made.variant = static_cast<int>(calls_.size());
    const bool in_place = plan.plan().in_place && pick(0, 1) == 0;
    try {
      for (int rank = 0; rank < ranks_; ++rank) {
        const BoundPlan bound = bind(plan, call, rank, limits);
        made.launches.push_back(std::make_unique<PreparedLaunch>(bound, call, shape, end_of(rank), 0));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResources) << error.what();
      calls_.pop_back();
      return false;
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      const bool has_both = has_input(call, rank) && has_output(call, rank);
      const test::BufferLayout layout{.in_place = in_place && has_both};
      auto buffers = std::make_unique<test::CallBuffers>(call, ranks_, rank, layout);
      fill_input(call, ranks_, rank, made.variant, buffers->input());
      buffers->remember();
      watch(*buffers, rank);
      const auto r = static_cast<size_t>(rank);
      const auto [kernel, argument] = made.launches[r]->launch(buffers->input(), buffers->output());
      machine_.launch(r, kernel.grid, kernel.block, test::body_of(call.type, kernel.function, argument),
                      pick(0, 3) > 0);
      made.buffers.push_back(std::move(buffers));
    }
    return true;
  }

  void check() {
    for (const Made& made : calls_) {
      for (int rank = 0; rank < ranks_; ++rank) {
        test::CallBuffers& buffers = *made.buffers[static_cast<size_t>(rank)];
        EXPECT_EQ(count_wrong(made.call, ranks_, rank, made.variant, buffers.output()), 0u)
            << to_text(made.call) << ", rank " << rank;
        EXPECT_NO_THROW(buffers.require_untouched_surroundings()) << to_text(made.call) << ", rank " << rank;
      }
    }
    for (int rank = 0; rank < ranks_; ++rank) EXPECT_EQ(failures_of(static_cast<size_t>(rank)), 0) << rank;
  }

 private:
  struct Made {
    Call call;
    int variant = 0;
    std::vector<std::unique_ptr<test::CallBuffers>> buffers;
    std::vector<std::unique_ptr<PreparedLaunch>> launches;
  };
  std::deque<Made> calls_;
};

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
      GivenWorld world(plan.plan().rank_count(), seed, UINT64_MAX);
      const bool finds_races = seed % 8 == 0;
      if (finds_races) world.find_races();
      const LaunchShape shape{protocol, 1 + static_cast<int>(seed % 2), kLeastThreads};
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
