// Plans that no kernel performs, on GPUs of one host: CPUs perform them, staged in host memory (TEM-12). Beside them
// kernels perform other calls of the same communicator.
#include <gtest/gtest.h>

#include <memory>

#include "algorithms/algorithm.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "gpu/checked_call.hpp"
#include "support/algorithm_plans.hpp"

namespace plait::test {
namespace {

using Given = std::shared_ptr<const VerifiedPlan>;

constexpr Call sum_of(size_t count) { return {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}; }

Settings settings_with(const char* algorithm, bool staged_plans) {
  Settings made;
  made.timeout_seconds = 20;
  made.algorithm = algorithm;
  made.staged_plans = staged_plans;
  made.staging_bytes = 256 << 10;
  return made;
}

AlgorithmArguments machine_of(Collective collective, int ranks) {
  AlgorithmArguments machine;
  machine.collective = collective;
  machine.ranks = ranks;
  machine.root = has_root(collective) ? ranks - 1 : 0;
  machine.engine = Engine::kSm;
  return machine;
}

class StagedPlans : public testing::TestWithParam<int> {};

TEST_P(StagedPlans, APinnedAlgorithmOfHostMemoryRuns) {
  World world(GetParam(), settings_with("all_reduce:host_staged", false));
  int variant = 0;
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{1'000'001}}) {
    for (const bool in_place : {false, true}) {
      EXPECT_EQ(CheckedCall(world, sum_of(count), in_place).run(false, ++variant), 0u) << count;
      Call by_kernels = sum_of(count);
      by_kernels.collective = Collective::kBroadcast;
      EXPECT_EQ(CheckedCall(world, by_kernels, in_place).run(false, variant), 0u) << count;
    }
  }
  EXPECT_TRUE(world.rank(0).launch_for(sum_of(1000)).starts_with("staged in host memory"));
}

TEST_P(StagedPlans, GivenPlansThatNoKernelPerformsRun) {
  World world(GetParam(), settings_with("", true));
  int plans = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      for (const AlgorithmArguments& form : forms_of(algorithm, machine_of(collective, world.size()))) {
        const auto plan = std::make_shared<const VerifiedPlan>(verify(algorithm.make(form)));
        if (plan->plan().access != Access::kStaged || !gpu_plan_limits().excess(*plan)) continue;
        for (int r = 0; r < world.size(); ++r) world.rank(r).give(plan);
        const Call call = call_by(*plan, DataType::kInt32, ReduceOp::kSum, 100'001);
        EXPECT_EQ(CheckedCall(world, call, false).run(false, ++plans), 0u) << plan->plan().algorithm;
      }
    }
  }
  EXPECT_GT(plans, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, StagedPlans, testing::Values(2, 3, 4));

}  // namespace
}  // namespace plait::test
