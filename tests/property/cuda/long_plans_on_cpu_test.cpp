// Every algorithm that one node can perform, run by the kernels on a CPU over 2 to 16 ranks: those whose plans do not
// fit the argument of a launch as long launches.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "api/given_plan.hpp"
#include "api/long_launch.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "property/cuda/given_world.hpp"
#include "support/algorithm_plans.hpp"

namespace plait {
namespace {

constexpr size_t kMostCount = 200;

struct Found {
  int plans = 0, long_ones = 0;
  size_t queues = 0;
};

void expect_right(const VerifiedPlan& plan, DataType type, uint64_t seed, Found& found) {
  test::GivenWorld world(plan.plan().rank_count(), seed, UINT64_MAX);
  if (seed % 4 == 0) world.find_races();
  LaunchShape shape{Protocol::kSimple, 1, kLeastThreads};
  const Call longest = call_by(plan, type, ReduceOp::kSum, kMostCount);
  const int queues = plan.report().shape.queues;
  if (needs_long_launch(plan, longest, shape)) {
    shape = long_shape(shape, queues, {queues, 1});
    ++found.long_ones;
  }
  ++found.plans;
  found.queues = std::max(found.queues, static_cast<size_t>(queues));
  BindLimits limits = CudaRank::limits(shape, plan.plan());
  limits.least_slice_bytes = 1;
  // The second call uses the other half of the memory, and the third that of the first.
  for (const size_t count : {size_t{8}, kMostCount, size_t{8} * static_cast<size_t>(world.pick(1, 20))}) {
    Call call = call_by(plan, type, ReduceOp::kSum, count);
    call.type = type;
    ASSERT_TRUE(world.add(plan, call, shape, limits)) << to_text(call);
  }
  ASSERT_NO_THROW(world.run());
  world.check();
}

class LongPlansOnCpu : public testing::TestWithParam<int> {};

TEST_P(LongPlansOnCpu, EveryAlgorithmIsPerformed) {
  const int ranks = GetParam();
  Found found;
  uint64_t seed = 0;
  for (const Plan& plan : test::plans_over(ranks, {1, ranks < 4 ? 4 : 2})) {
    ++seed;
    const VerifiedPlan verified = verify(plan);
    SCOPED_TRACE(join(plan.algorithm, ", ", name(plan.collective), ", ", ranks, " ranks, seed ", seed));
    ASSERT_NO_THROW(check_given(verified, ranks, gpu_plan_limits(), true));
    expect_right(verified, seed % 2 == 0 ? DataType::kInt32 : DataType::kBfloat16, seed, found);
    if (HasFailure()) return;
  }
  std::cout << found.plans << " plans, " << found.long_ones << " long, of up to " << found.queues << " queues\n";
  EXPECT_GT(found.long_ones, 0);
  EXPECT_LT(found.long_ones, found.plans);
}

// The address sanitizer takes twelve times longer, and sees every line of the kernels with few ranks.
std::vector<int> rank_counts() {
#ifdef __SANITIZE_ADDRESS__
  return {2, 3, 4};
#else
  return {2, 3, 4, 5, 8, 16};
#endif
}

INSTANTIATE_TEST_SUITE_P(Ranks, LongPlansOnCpu, testing::ValuesIn(rank_counts()));

}  // namespace
}  // namespace plait
