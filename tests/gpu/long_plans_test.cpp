// Every algorithm that one node can perform, on GPUs: over 2 to 16 ranks of this process, several on each GPU where
// there are fewer GPUs. Eager and captured, in place and not, of several types and counts.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "api/communicator.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "plan/json.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "support/algorithm_plans.hpp"
#include "world.hpp"

namespace plait::test {
namespace {

using Given = std::shared_ptr<const VerifiedPlan>;

// Messages are for ranks of several nodes, and for counts that other ranks do not know.
bool sends_messages(const Plan& plan) {
  return std::ranges::any_of(plan.ranks, [](const RankPlan& it) { return it.messages > 0; });
}

std::vector<Given> plans_over(int ranks) {
  std::vector<Given> plans;
  std::set<std::string> seen;
  AlgorithmArguments machine;
  machine.ranks = ranks;
  machine.engine = Engine::kSm;
  for (const bool has_links : {false, true}) {
    if (has_links) machine.links = links_of_all(ranks);
    for (const Algorithm& algorithm : algorithms()) {
      for (const Collective collective : algorithm.collectives) {
        machine.collective = collective;
        machine.root = has_root(collective) ? ranks - 1 : 0;
        for (const AlgorithmArguments& form : forms_of(algorithm, machine, {1, 4})) {
          const Plan plan = algorithm.make(form);
          if (plan.access != Access::kStaged || sends_messages(plan)) continue;
          if (!seen.insert(to_json(plan)).second) continue;
          plans.push_back(std::make_shared<const VerifiedPlan>(verify(plan)));
        }
      }
    }
  }
  return plans;
}

class LongPlans : public testing::TestWithParam<int> {
 protected:
  LongPlans() : world_(GetParam(), settings()) {}

  // Wrong elements of all ranks.
  size_t run(const Call& call, bool in_place, bool captured, int variant) {
    for (int r = 0; r < world_.size(); ++r) {
      std::vector<std::byte> given(input_elements(call, world_.size(), r) * size_of(call.type));
      fill_input(call, world_.size(), r, variant, given.data());
      check_cuda(cudaMemcpyAsync(from(call, r, in_place), given.data(), given.size(), cudaMemcpyHostToDevice,
                                 world_.stream(r)),
                 "upload");
    }
    world_.synchronize();
    const auto enqueue = [&](int r) {
      world_.rank(r).enqueue(call, from(call, r, in_place), to(call, r, in_place), world_.stream(r));
    };
    if (captured) {
      const std::vector<Graph> graphs = captured_in_turn(world_, enqueue);
      launch(world_, graphs);
      world_.synchronize();
    } else {
      for (int r = 0; r < world_.size(); ++r) enqueue(r);
      world_.synchronize();
    }
    size_t wrong = 0;
    for (int r = 0; r < world_.size(); ++r) {
      if (const auto error = world_.rank(r).async_error()) throw *error;
      std::vector<std::byte> got(output_elements(call, world_.size(), r) * size_of(call.type));
      check_cuda(
          cudaMemcpyAsync(got.data(), to(call, r, in_place), got.size(), cudaMemcpyDeviceToHost, world_.stream(r)),
          "download");
      check_cuda(cudaStreamSynchronize(world_.stream(r)), "download");
      wrong += count_wrong(call, world_.size(), r, variant, got.data());
    }
    return wrong;
  }

  static Settings settings() {
    Settings made;
    made.timeout_seconds = 20;
    return made;
  }
  size_t own_block(const Call& call, int r) const { return static_cast<size_t>(r) * call.count * size_of(call.type); }
  std::byte* from(const Call& call, int r, bool in_place) {
    if (!in_place) return world_.input(r);
    return world_.output(r) + (gathers(call.collective) ? own_block(call, r) : 0);
  }
  std::byte* to(const Call& call, int r, bool in_place) {
    return world_.output(r) + (in_place && scatters(call.collective) ? own_block(call, r) : 0);
  }

  World world_;
};

TEST_P(LongPlans, EveryAlgorithmIsPerformed) {
  int long_ones = 0, plans = 0;
  for (const Given& plan : plans_over(GetParam())) {
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
            ASSERT_EQ(run(call, in_place, captured, ++variant), 0u)
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
