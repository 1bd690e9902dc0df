// Every algorithm that one node can perform, on GPUs: over 2 to 16 ranks of this process, several on each GPU where
// there are fewer GPUs. Eager and captured, in place and not, of several types and counts.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "api/communicator.hpp"
#include "api/plan_limits.hpp"
#include "gpu/checked_call.hpp"
#include "support/algorithm_plans.hpp"

namespace plait::test {
namespace {

using Given = std::shared_ptr<const VerifiedPlan>;

class LongPlans : public testing::TestWithParam<int> {
 protected:
  LongPlans() : world_(GetParam(), settings()) {}

  static Settings settings() {
    Settings made;
    made.timeout_seconds = 20;
    return made;
  }
  World world_;
};

TEST_P(LongPlans, EveryAlgorithmIsPerformed) {
  int long_ones = 0, plans = 0;
  for (Plan& made : plans_over(GetParam(), {1, 4})) {
    const Given plan = std::make_shared<const VerifiedPlan>(verify(std::move(made)));
    for (int r = 0; r < world_.size(); ++r) world_.rank(r).give(plan);
    ++plans;
    long_ones += short_gpu_plan_limits().excess(*plan).has_value();
    int variant = 0;
    for (const DataType type : {DataType::kInt32, DataType::kBfloat16}) {
      for (const size_t count : {size_t{1}, size_t{1000}, size_t{100'001}}) {
        const Call call = call_by(*plan, type, ReduceOp::kSum, count);
        for (const bool in_place : {false, true}) {
          if (in_place && !plan->plan().in_place) continue;
          for (const bool captured : {false, true}) {
            ASSERT_EQ(CheckedCall(world_, call, in_place).run(captured, ++variant), 0u)
                << plan->plan().algorithm << ", " << to_text(call) << ", " << world_.rank(0).launch_for(call)
                << (in_place ? ", in place" : "") << (captured ? ", captured" : "");
          }
        }
      }
    }
  }
  std::printf("%d plans, %d of them long\n", plans, long_ones);
  EXPECT_GT(long_ones, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, LongPlans, testing::Values(2, 3, 4, 8, 16));

}  // namespace
}  // namespace plait::test
