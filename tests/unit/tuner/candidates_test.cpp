// Tests which candidates can be chosen, and which are left out.
#include "tuner/candidates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/one_node.hpp"
#include "plan/proof_size.hpp"
#include "plan/shape.hpp"
#include "topology/machines.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

RankMachine ranks_of(const char* name, int nodes) {
  const Topology topology = machine(name, nodes);
  return place_on(topology, static_cast<int>(devices_of(topology, DeviceKind::kGpu).size()), {});
}

// The least of a limit with which a plan can be performed.
template <class Set>
int least(const Plan& plan, const Set& set) {
  int too_few = 0, enough = 1 << 20;
  while (enough - too_few > 1) {
    PlanLimits limits;
    limits.signals = 1 << 20;
    const int middle = (too_few + enough) / 2;
    set(limits) = middle;
    (limits.excess(plan) ? too_few : enough) = middle;
  }
  return enough;
}

// Over several nodes a plan needs what the same plan needs whose messages are stores.
TEST(PlanLimits, AreOfTheStoresThatStandForMessages) {
  const RankMachine machine = ranks_of("kesch", 2);
  for (const Collective collective : {Collective::kAllReduce, Collective::kGather, Collective::kBarrier}) {
    const AlgorithmArguments arguments = machine.arguments(collective, 0);
    for (const Algorithm& algorithm : algorithms()) {
      if (!serves(algorithm, collective)) continue;
      for (const AlgorithmArguments& it : algorithm.candidates(arguments)) {
        const Plan plan = algorithm.make(it), stores = on_one_node(plan);
        ASSERT_TRUE(spans_nodes(plan) && !spans_nodes(stores));
        const auto expect_alike = [&](int PlanLimits::* limit) {
          const auto set = [&](PlanLimits& limits) -> int& { return limits.*limit; };
          EXPECT_EQ(least(plan, set), least(stores, set)) << plan.algorithm;
        };
        expect_alike(&PlanLimits::signals);
        expect_alike(&PlanLimits::slots);
        expect_alike(&PlanLimits::operations);
        expect_alike(&PlanLimits::places);
      }
    }
  }
}

TEST(PlanLimits, SayWhatIsTooMuch) {
  const RankMachine machine = ranks_of("kesch", 2);
  const auto excess = [&](const char* algorithm, const PlanLimits& limits) {
    return limits.excess(make_plan(algorithm, machine.arguments(Collective::kAllReduce, 0))).value_or("");
  };
  PlanLimits no_messages, no_host_memory, few_signals;
  no_messages.messages = no_host_memory.host_memory = false;
  few_signals.signals = 8;
  EXPECT_EQ(excess("ring", {}), "");
  EXPECT_EQ(excess("ring", no_messages), "rank 0 has 62 messages from other nodes, more than 0");
  EXPECT_EQ(excess("nvgroup_ring", no_host_memory), "rank 0 has 64 slots in host memory, more than 0");
  EXPECT_EQ(excess("ring", few_signals), "rank 0 has 124 signals, more than 8");
}

TEST(Candidates, SayWhatIsTooLarge) {
  // 2,900 ranks x as many chunks are more than can be proved, in one part or in several.
  const RankMachine machine = ranks_of("abci", 725);
  const Candidates found = find_candidates(machine, {}, Collective::kAllReduce, 0);
  const auto is_left_out = [&](const std::string& name) {
    return std::any_of(found.left_out.begin(), found.left_out.end(),
                       [&](const LeftOut& it) { return it.too_large && it.plan.text() == name; });
  };
  EXPECT_TRUE(is_left_out("ring") && is_left_out("ring(parts=8)") && is_left_out("bruck(store)"));
  EXPECT_FALSE(is_left_out("double_binary_tree(store)"));
  EXPECT_NE(found.find({"double_binary_tree", found.all[0].choice.arguments, ""}, Protocol::kSimple), nullptr);
  try {
    find_candidates(machine, {}, Collective::kAllGather, 0);
    FAIL() << "found some";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("no algorithm for all_gather fits 2900 ranks of abci:\n  plan bruck(store) would"), text.npos);
    EXPECT_NE(text.find("\n  plan rabenseifner(far_first) would"), text.npos);
    EXPECT_NE(text.find("\n  plan ring would"), text.npos);
    EXPECT_NE(text.find("\n  plan hierarchical(group: flat(store), all: ring) would"), text.npos);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;  // one line an algorithm
  }
}

// Eight GPUs have a link of 64 GB/s for each pair, so that each link takes one eighth of what a rank gives.
TEST(Candidates, AllToAllFillsEveryLinkOfAPair) {
  const Candidates found = find_candidates(ranks_of("mi300x-8", 1), {}, Collective::kAllToAll, 0);
  EXPECT_NEAR(1e-9 / found.cheapest(1e9).bound_seconds_per_byte, 8 * 64, 1e-6);
}

TEST(Candidates, BlocksOverNodesMayGoInRingsOfRings) {
  for (const Collective collective : {Collective::kReduceScatter, Collective::kAllGather}) {
    const Candidates found = find_candidates(ranks_of("kesch", 2), {}, collective, 0);
    EXPECT_EQ(found.cheapest(1e9).choice.text(), "hierarchical(node: ring, all: ring)") << name(collective);
  }
}

TEST(Candidates, AreDroppedInEveryProtocol) {
  Candidates found = find_candidates(ranks_of("summit", 1), {}, Collective::kAllReduce, 0);
  const PlanChoice best = found.cheapest(8).choice;
  const auto named = [&] {
    return std::count_if(found.all.begin(), found.all.end(),
                         [&](const Candidate& it) { return it.choice.text() == best.text(); });
  };
  EXPECT_GT(named(), 1);
  found.drop({best, "cannot be proved", true});
  EXPECT_EQ(named(), 0);
  EXPECT_EQ(found.left_out.back().why, "cannot be proved");
  EXPECT_NE(found.cheapest(8).choice.text(), best.text());
}

TEST(Tuner, TellsWhatItDoes) {
  std::vector<std::string> told;
  Tuner tuner(ranks_of("pcie-4", 1), {}, {}, true);
  tuner.report_to([&](const std::string& what) { told.push_back(what); });
  const Choice choice = tuner.choose({Collective::kAllReduce, 1 << 20});
  ASSERT_GT(told.size(), 2u);
  EXPECT_EQ(told[0].substr(0, 7), "trying ");
  EXPECT_NE(told[1].find(", 2 of "), std::string::npos) << told[1];
  EXPECT_EQ(told.back(), "proving " + choice.plan.text());
  const size_t before = told.size();
  tuner.choose({Collective::kAllReduce, 1 << 20});
  EXPECT_EQ(told.size(), before);  // all is known
}

}  // namespace
}  // namespace plait
