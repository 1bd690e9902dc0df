// Tests what the tuner makes of plans that callers give.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "plan/builder.hpp"
#include "support/gpu_choice.hpp"
#include "support/kernel_plans.hpp"

namespace plait {
namespace {

using Given = std::shared_ptr<const VerifiedPlan>;

Given given(const std::string& algorithm, Access access = Access::kStaged, Engine engine = Engine::kSm) {
  AlgorithmArguments arguments;
  arguments.ranks = 4;
  arguments.engine = engine;
  arguments.access = access;
  return std::make_shared<const VerifiedPlan>(verify(make_plan(algorithm, arguments)));
}

test::GpuQuery four_gpus() {
  test::GpuQuery query;
  query.ranks = 4;
  query.host_path = true;
  return query;
}

Query query_for(const Given& plan, size_t bytes) {
  Query query;
  query.bytes = bytes;
  query.plan = plan->fingerprint();
  return query;
}

Choice choose(const Given& plan, size_t bytes, const std::string& algorithm = "",
              const std::optional<LaunchShape>& launch = std::nullopt, bool only_simple = false) {
  Tuner tuner = test::tuner_for(four_gpus(), algorithm, launch);
  tuner.give(plan);
  Query query = query_for(plan, bytes);
  query.only_simple = only_simple;
  const Choice choice = tuner.choose(query);
  EXPECT_EQ(tuner.plan(choice.plan).get(), plan.get());
  return choice;
}

TEST(GivenChoice, GoesBeforeAllElse) {
  const Given plan = given("ring");
  for (const char* algorithm : {"", "all_reduce:flat(store)", "all_reduce:flat(load, zero_copy)"}) {
    for (const size_t bytes : {size_t{8}, size_t{1} << 20, size_t{1} << 30}) {
      const Choice choice = choose(plan, bytes, algorithm);
      EXPECT_EQ(choice.plan.text(), "ring");
      EXPECT_EQ(choice.plan.reason, "given by the caller");
      EXPECT_FALSE(choice.is_measured || choice.ending || choice.zero_copy);
      EXPECT_EQ(choice.launch.host.channels, 0);
    }
  }
}

// As the same plan is that PLAIT_ALGORITHM names.
TEST(GivenChoice, IsLaunchedAsAnAlgorithm) {
  for (const char* algorithm : {"flat(store)", "one_shot(store)", "flat(load)", "ring"}) {
    for (size_t bytes = 8; bytes <= size_t{1} << 30; bytes *= 4) {
      test::GpuQuery query = four_gpus();
      query.bytes = bytes;
      const Choice named = test::choose_on_gpus(query, std::string("all_reduce:") + algorithm);
      EXPECT_EQ(choose(given(algorithm), bytes).launch, named.launch) << algorithm << ", " << bytes;
    }
  }
  EXPECT_NE(choose(given("one_shot(store)"), 64).launch.protocol, Protocol::kSimple);
}

TEST(GivenChoice, TakesSignalsWhereItHasTo) {
  const Given plan = given("flat(store)");
  for (const auto& launch : {std::optional<LaunchShape>(), std::optional(LaunchShape{Protocol::kLl, 3, 64})}) {
    EXPECT_NE(choose(plan, 64, "", launch).launch.protocol, Protocol::kSimple);
    EXPECT_EQ(choose(plan, 64, "", launch, true).launch.protocol, Protocol::kSimple);
  }
}

TEST(GivenChoice, NothingGoesThroughHostMemory) {
  const LaunchShape asked{Protocol::kSimple, 8, 256, {4, 0.25}};
  EXPECT_EQ(choose(given("flat(store)"), 1 << 30, "", asked).launch, (LaunchShape{Protocol::kSimple, 8, 256}));
}

TEST(GivenChoice, GoesFromBufferToBufferWhereItSaysSo) {
  for (const Engine engine : {Engine::kSm, Engine::kCopy}) {
    const Given plan = given("flat(load)", Access::kZeroCopy, engine);
    const Choice choice = choose(plan, 8);
    ASSERT_TRUE(choice.zero_copy.has_value());
    EXPECT_EQ(choice.zero_copy->given, plan->fingerprint());
    EXPECT_EQ(choice.zero_copy->arguments.engine, engine);
    EXPECT_TRUE(choice.insists_on_zero_copy);
  }
  test::GpuQuery far = four_gpus();
  far.maps_buffers = false;
  Tuner tuner = test::tuner_for(far);
  const Given plan = given("flat(load)", Access::kZeroCopy);
  tuner.give(plan);
  EXPECT_FALSE(tuner.choose(query_for(plan, 8)).zero_copy.has_value());
}

TEST(GivenChoice, IsUnknownUntilItIsGiven) {
  Tuner tuner = test::tuner_for(four_gpus());
  EXPECT_THROW(tuner.choose(query_for(given("ring"), 8)), Error);
}

}  // namespace
}  // namespace plait
