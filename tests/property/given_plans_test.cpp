// Plans that nobody chose: what the verifier accepts, the host runtime performs, also where plans were changed at
// random. Results are right to the bit, in place where the plan claims it, and ranks that were given different plans
// are told so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "api/communicator.hpp"
#include "api/given_plan.hpp"
#include "api/plan_limits.hpp"
#include "bench/exact_input.hpp"
#include "plan/fingerprint.hpp"
#include "plan/json.hpp"
#include "property/plan_mutations.hpp"
#include "property/plan_zoo.hpp"
#include "support/algorithm_plans.hpp"
#include "support/call_buffers.hpp"
#include "support/rank_threads.hpp"

namespace plait::test {
namespace {

using Given = std::shared_ptr<const VerifiedPlan>;

uint64_t seed_of_given_plans() {
  const char* text = std::getenv("PLAIT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20250417;
}

Settings patient_settings() {
  Settings settings;
  settings.timeout_seconds = 60;
  settings.wait_policy = WaitPolicy::kYield;
  return settings;
}

// Staged plans, by hand and by algorithms, over one node and two.
std::vector<Plan> staged_plans() {
  std::vector<Plan> plans = zoo();
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      for (const auto& nodes : {std::vector<int>{0, 0, 0}, std::vector<int>{0, 0, 1, 1}}) {
        AlgorithmArguments machine;
        machine.collective = collective;
        machine.ranks = static_cast<int>(nodes.size());
        machine.root = has_root(collective) ? 1 : 0;
        machine.node_of = nodes;
        machine.links = links_of_all(machine.ranks);
        for (const AlgorithmArguments& form : forms_of(algorithm, machine, {1, 2}))
          plans.push_back(algorithm.make(form));
      }
    }
  }
  std::erase_if(plans, [](const Plan& plan) { return plan.access != Access::kStaged; });
  return plans;
}

std::optional<Given> accepted(const Plan& plan) {
  try {
    auto given = std::make_shared<const VerifiedPlan>(verify(plan));
    check_given(*given, plan.rank_count(), host_plan_limits({}), false);
    return given;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Performs one call several times, so that scratch and signals are used again.
void call_by_plan(Communicator& communicator, const Given& plan, const Call& call, bool in_place) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const bool has_both = has_input(call, rank) && has_output(call, rank);
  communicator.give(plan);
  for (int variant = 0; variant < 4; ++variant) {
    CallBuffers buffers(call, ranks, rank, {.in_place = in_place && has_both});
    fill_input(call, ranks, rank, variant, buffers.input());
    buffers.remember();
    communicator.run(call, buffers.input(), buffers.output());
    const size_t wrong = count_wrong(call, ranks, rank, variant, buffers.output());
    require(wrong == 0, wrong, " wrong elements of ", to_text(call), in_place ? ", in place" : "");
    buffers.require_untouched_surroundings();
  }
}

// Calls of few elements, whose data may travel in signals; of many slices; of wide sums.
void expect_right(const Given& plan, uint64_t seed) {
  const Plan& its = plan->plan();
  Settings settings = patient_settings();
  settings.scratch_bytes = 256 << 10;
  const size_t most = 3000 + seed % 1000;
  for (const Outcome& outcome : run_threads(its.rank_count(), settings, [&](Communicator& communicator) {
         for (const DataType type : {DataType::kInt32, DataType::kBfloat16}) {
           for (const size_t count : {size_t{1}, size_t{7}, most}) {
             const Call call = call_by(*plan, type, ReduceOp::kSum, count);
             call_by_plan(communicator, plan, call, false);
             if (its.in_place) call_by_plan(communicator, plan, call, true);
           }
         }
       })) {
    ASSERT_TRUE(outcome.well()) << describe(outcome) << "\n" << to_json(its);
  }
}

TEST(GivenPlans, OfEveryKindRun) {
  uint64_t seed = seed_of_given_plans();
  for (const Plan& plan : staged_plans()) {
    SCOPED_TRACE(plan.algorithm);
    const auto given = accepted(plan);
    ASSERT_TRUE(given.has_value());
    expect_right(*given, ++seed);
    if (HasFatalFailure()) return;
  }
}

TEST(GivenPlans, ChangedAtRandomAndAcceptedRun) {
  const uint64_t seed = seed_of_given_plans();
  std::cout << "PLAIT_TEST_SEED=" << seed << "\n";
  Random random(seed);
  const std::vector<Plan> plans = staged_plans();
  int run = 0;
  for (int attempt = 0; run < 150; ++attempt) {
    ASSERT_LT(attempt, 100'000) << "hardly any changed plan is accepted";
    Plan plan = plans[static_cast<size_t>(pick(random, plans.size()))];
    const Plan before = plan;
    const int changes = 1 + pick(random, 3);
    for (int change = 0; change < changes; ++change) {
      kMutations[pick(random, std::size(kMutations))].apply(plan, random);
    }
    if (plan == before) continue;
    const auto given = accepted(plan);
    if (!given || (*given)->plan().access != Access::kStaged) continue;
    SCOPED_TRACE(plan.algorithm);
    expect_right(*given, random());
    if (HasFatalFailure()) return;
    ++run;
  }
}

// Rank 1 was given another one: nobody gets a wrong result in silence, and nobody waits for ever.
TEST(GivenPlans, ThatDifferBetweenRanksAreToldOnAllRanks) {
  Random random(seed_of_given_plans());
  std::vector<Plan> plans = zoo();
  std::erase_if(plans, [](const Plan& plan) { return !accepted(plan); });
  int synchronizing = 0;
  for (const Plan& plan : plans) {
    SCOPED_TRACE(plan.algorithm);
    Plan renamed = plan;
    renamed.algorithm += " again";
    const Given one = *accepted(plan), other = *accepted(renamed);
    std::vector<Communicator> communicators = Communicator::in_process(plan.rank_count(), patient_settings());
    const Outcomes outcomes = run_threads(plan.rank_count(), [&](int rank) {
      Communicator own = std::move(communicators[static_cast<size_t>(rank)]);
      const Given& mine = rank == 1 ? other : one;
      const Call call = call_by(*mine, DataType::kInt32, ReduceOp::kSum, 100);
      CallBuffers buffers(call, plan.rank_count(), rank, {});
      fill_input(call, plan.rank_count(), rank, 0, buffers.input());
      own.run(mine, buffers.input(), buffers.output(), 100, DataType::kInt32);
      own.close();  // where no rank waited for another in the call
    });
    for (const Outcome& outcome : outcomes) {
      const std::string problem =
          objection(outcome, ErrorCode::kMismatch,
                    {"call 1 differs between ranks", "by plan " + fingerprint_text(one->fingerprint()), "rank 1 called",
                     "by plan " + fingerprint_text(other->fingerprint())});
      const bool may_end_well = !one->report().synchronizes;
      EXPECT_TRUE(problem.empty() || (may_end_well && outcome.well())) << problem;
    }
    EXPECT_TRUE(std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& it) { return !it.well(); }));
    synchronizing += one->report().synchronizes;
  }
  EXPECT_GT(synchronizing, 5);
}

}  // namespace
}  // namespace plait::test
