// Proves the verifier: valid plans are broken at random, an oracle that shares nothing with the verifier looks for
// harm, and whatever it finds harmful must have been refused, in words that say where.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "plan/text.hpp"
#include "plan/verifier.hpp"
#include "property/plan_mutations.hpp"
#include "property/plan_oracle.hpp"
#include "property/plan_zoo.hpp"
#include "support/algorithm_plans.hpp"
#include "support/seed.hpp"

namespace plait::test {
namespace {

constexpr int kMutantsPerKind = shortened(300);
constexpr int kSchedules = 24;          // a mutant that the verifier accepts is run that often each way
constexpr int kSchedulesIfRefused = 6;  // only to tell how many refusals were for a harm that shows easily

uint64_t seed_of_this_run() {
  const char* text = std::getenv("PLAIT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 20240229;
}

std::optional<std::string> refusal_of(const Plan& plan) {
  try {
    verify(plan);
    return std::nullopt;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan) << error.what();
    return error.what();
  }
}

// A refusal says which operation of which queue of which rank and, where it is about data, which chunk; or which chunk
// of which rank's output; or, where a count does not fit, which rank.
bool says_where(const std::string& message) {
  const std::string where = "rank [0-9]+, queue [0-9]+ \\((sm|copy|cpu|net)\\), operation [0-9]+ `";
  for (const std::string& pattern : {
           where + "(reduce|send|receive) .*: chunks? -?[0-9]",
           where + "(signal|wait) ",
           where + "(send|receive) .*: no data",
           std::string("rank [0-9]+, chunk [0-9]+: its output"),
           std::string("of rank [0-9]+ is counted but neither"),
           std::string("rank [0-9]+ counts "),
           std::string("rank [0-9]+ may leave the barrier before rank [0-9]+ has come"),
       }) {
    const testing::Matcher<const std::string&> matches = testing::ContainsRegex(pattern);
    if (matches.Matches(message)) return true;
  }
  return false;
}

// What the algorithms make, for small machines of several forms: one node and two, one group and several, staged and
// peer reach, in one part and several, and with copy engines.
std::vector<Plan> registered_plans() {
  std::vector<AlgorithmArguments> machines(7);
  machines[0].ranks = 2;
  machines[1].ranks = 3;
  machines[1].parts = 2;
  machines[2].ranks = 4;
  machines[2].engine = Engine::kSm;
  machines[2].access = Access::kZeroCopy;
  machines[3].ranks = 4;
  machines[3].groups = {{0, 1}, {2, 3}};
  machines[4].ranks = 4;
  machines[4].node_of = {0, 0, 1, 1};
  machines[5].ranks = 6;
  machines[5].node_of = {0, 0, 0, 1, 1, 1};
  machines[5].parts = 2;
  machines[3].links = machines[4].links = test::links_of_all(4);
  machines[1].links = {{0, 1, 25}, {1, 2, 50}};
  machines[6].ranks = 3;
  machines[6].engine = Engine::kCopy;
  machines[6].access = Access::kZeroCopy;
  std::vector<Plan> plans;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      for (AlgorithmArguments arguments : machines) {
        arguments.collective = collective;
        arguments.root = has_root(collective) ? arguments.ranks - 1 : 0;
        for (const AlgorithmArguments& form : test::forms_of(algorithm, arguments, {arguments.parts})) {
          plans.push_back(algorithm.make(form));
        }
      }
    }
  }
  EXPECT_GT(plans.size(), 50u);
  return plans;
}

std::vector<Plan> all_plans() {
  std::vector<Plan> plans = zoo();
  for (Plan& plan : registered_plans()) plans.push_back(std::move(plan));
  return plans;
}

struct Counts {
  int harmful_refused = 0, harmless_refused = 0, harmless_accepted = 0, harmful_accepted = 0;
};

TEST(Mutation, ValidPlansAreAcceptedAndHarmless) {
  for (const Plan& plan : all_plans()) {
    EXPECT_EQ(refusal_of(plan), std::nullopt) << plan.algorithm;
    EXPECT_EQ(PlanOracle(plan, seed_of_this_run()).find_harm(kSchedules), std::nullopt) << plan.algorithm;
  }
}

TEST(Mutation, HarmfulMutantsAreRefused) {
  const uint64_t seed = seed_of_this_run();
  std::cout << "PLAIT_TEST_SEED=" << seed << "\n";
  Random random(seed);
  const std::vector<Plan> made = registered_plans(), by_hand = zoo();
  std::vector<Counts> counts(std::size(kMutations));
  for (size_t kind = 0; kind < std::size(kMutations); ++kind) {
    for (int i = 0; i < kMutantsPerKind; ++i) {
      const std::vector<Plan>& plans = i % 2 == 0 ? by_hand : made;
      const Plan& original = plans[pick(random, plans.size())];
      Plan mutant = original;
      // A second fault may hide behind the first, so most mutants have one only.
      if (i % 4 == 3) kMutations[pick(random, std::size(kMutations))].apply(mutant, random);
      if (!kMutations[kind].apply(mutant, random) || mutant == original) continue;
      const std::optional<std::string> refusal = refusal_of(mutant);
      const std::optional<std::string> harm =
          PlanOracle(mutant, random()).find_harm(refusal ? kSchedulesIfRefused : kSchedules);
      ++(refusal ? harm ? counts[kind].harmful_refused : counts[kind].harmless_refused
         : harm  ? counts[kind].harmful_accepted
                 : counts[kind].harmless_accepted);
      if (refusal) {
        EXPECT_TRUE(says_where(*refusal)) << kMutations[kind].name << ": " << *refusal;
      } else {
        ASSERT_FALSE(harm) << "accepted, but harmful (" << kMutations[kind].name << "): " << *harm << "\n"
                           << to_text(mutant);
      }
    }
  }
  std::cout << std::left << std::setw(26) << "mutation" << std::right << std::setw(18) << "harmful, refused"
            << std::setw(20) << "harmless, refused" << std::setw(20) << "harmless, accepted\n";
  Counts all;
  for (size_t kind = 0; kind < std::size(kMutations); ++kind) {
    const Counts& c = counts[kind];
    std::cout << std::left << std::setw(26) << kMutations[kind].name << std::right << std::setw(18) << c.harmful_refused
              << std::setw(20) << c.harmless_refused << std::setw(20) << c.harmless_accepted << "\n";
    all.harmful_refused += c.harmful_refused;
    all.harmless_refused += c.harmless_refused;
    all.harmless_accepted += c.harmless_accepted;
  }
  std::cout << std::left << std::setw(26) << "all" << std::right << std::setw(18) << all.harmful_refused
            << std::setw(20) << all.harmless_refused << std::setw(20) << all.harmless_accepted << "\n";
  EXPECT_GT(all.harmful_refused, shortened(1000));
}

}  // namespace
}  // namespace plait::test
