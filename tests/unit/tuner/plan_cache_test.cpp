// The plans of a communicator: one for each choice, and each made once.
#include "tuner/plan_cache.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace plait {
namespace {

PlanChoice choice_of() {
  PlanChoice choice;
  choice.algorithm = "flat";
  choice.arguments.collective = Collective::kBroadcast;
  choice.arguments.ranks = 3;
  choice.arguments.engine = Engine::kCopy;
  choice.arguments.access = Access::kZeroCopy;
  return choice;
}

TEST(PlanCache, MakesEachPlanOnce) {
  PlanCache plans;
  const auto plan = plans.get(choice_of());
  PlanChoice again = choice_of();
  again.reason = "another one";  // which is no part of the plan
  EXPECT_EQ(plans.get(again), plan);
}

TEST(PlanCache, KeepsApartWhatDiffers) {
  PlanCache plans;
  std::set<const VerifiedPlan*> made = {plans.get(choice_of()).get()};
  const std::function<void(PlanChoice&)> changes[] = {
      [](PlanChoice& it) { it.arguments.engine = Engine::kSm; },
      [](PlanChoice& it) { it.arguments.root = 1; },
      [](PlanChoice& it) { it.arguments.collective = Collective::kAllGather; },
      [](PlanChoice& it) { it.algorithm = "ring"; },
      [](PlanChoice& it) { it.arguments.access = Access::kStaged; },
      [](PlanChoice& it) { it.arguments.access = Access::kStaged, it.arguments.direction = Direction::kStore; },
      [](PlanChoice& it) {
        it.algorithm = "chain", it.arguments.direction = Direction::kStore, it.arguments.parts = 2;
      },
      [](PlanChoice& it) {
        it.algorithm = "chain", it.arguments.direction = Direction::kStore, it.arguments.parts = 3;
      },
  };
  for (const auto& change : changes) {
    PlanChoice choice = choice_of();
    change(choice);
    if (choice.algorithm != "flat" || choice.arguments.access == Access::kStaged) choice.arguments.engine = Engine::kSm;
    if (choice.algorithm == "ring") choice.arguments.collective = Collective::kAllGather;
    EXPECT_TRUE(made.insert(plans.get(choice).get()).second) << choice.algorithm;
  }
  EXPECT_EQ(plans.get(choice_of())->plan().ranks[1].queues[0].engine, Engine::kCopy);
}

std::shared_ptr<const VerifiedPlan> made_for(int ranks) {
  AlgorithmArguments arguments;
  arguments.collective = Collective::kBarrier;
  arguments.ranks = ranks;
  return std::make_shared<const VerifiedPlan>(verify(make_plan("flat", arguments)));
}

TEST(PlanCache, FindsWhatWasGiven) {
  PlanCache plans;
  const auto plan = made_for(2);
  PlanChoice choice = choice_of();
  choice.given = plan->fingerprint();
  EXPECT_FALSE(plans.knows(choice.given));
  EXPECT_THROW(plans.get(choice), Error);
  EXPECT_FALSE(plans.give(plan));
  EXPECT_TRUE(plans.knows(choice.given));
  EXPECT_EQ(plans.get(choice), plan);
  EXPECT_NE(plans.get(choice_of()), plan);
}

// Also of one alone who tries many.
TEST(PlanCache, ForgetsAllThatWasGivenWhereThereIsNoRoom) {
  PlanCache plans;
  const auto made = plans.get(choice_of());
  std::vector<std::shared_ptr<const VerifiedPlan>> given;
  Plan plan = made_for(2)->plan();
  for (size_t i = 0; i <= PlanCache::kMostGiven; ++i) {
    plan.algorithm = join("plan ", i);
    given.push_back(std::make_shared<const VerifiedPlan>(verify(plan)));
    EXPECT_EQ(plans.give(given.back()), i == PlanCache::kMostGiven);
  }
  for (const auto& it : given) EXPECT_EQ(plans.knows(it->fingerprint()), it == given.back());
  EXPECT_EQ(plans.get(choice_of()), made);
}

}  // namespace
}  // namespace plait
