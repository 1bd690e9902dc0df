// Tests what `plait plan` shows of machines: the table, what is marked in it, and what was left out.
#include "api/machine_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "algorithms/algorithm.hpp"
#include "api/machine_simulation.hpp"
#include "base/error.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

MachinePlan planned(const char* name, int nodes, Collective collective, int ranks = 0, const Settings& settings = {}) {
  MachinePlanRequest request;
  request.collective = collective;
  request.ranks = ranks;
  return plan_for_machine(machine(name, nodes), request, settings);
}

bool shows(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(MachinePlan, MarksWhatGpusDoNotRun) {
  const MachinePlan over_nodes = planned("kesch", 2, Collective::kAllReduce);
  for (const PlannedRange& it : over_nodes.ranges) EXPECT_EQ(it.lacking_on_gpus, "messages between nodes");
  EXPECT_TRUE(shows(over_nodes.table(), "recursive_doubling *  ")) << over_nodes.table();
  EXPECT_TRUE(shows(over_nodes.notes(), "*: planned, not run on GPUs yet: needs messages between nodes; CPUs run it"));
  EXPECT_EQ(over_nodes.launch(), "");

  const MachinePlan too_many = planned("gb200-nvl72", 1, Collective::kAllGather);
  EXPECT_EQ(too_many.ranges[0].lacking_on_gpus, "more than 16 ranks");
  EXPECT_EQ(planned("mi300x-8", 1, Collective::kAllGather).ranges[0].lacking_on_gpus, "NVIDIA's GPUs");
}

// Rules are for what was tried, over up to 16 GPUs (property/cuda/default_launches_test.cpp).
TEST(MachinePlan, MarksNothingThatGpusRun) {
  for (const char* name : {"hgx-h100-8", "hgx-h200-4", "dgx2"}) {
    for (int c = 0; c < kCollectiveCount; ++c) {
      const MachinePlan made = planned(name, 1, static_cast<Collective>(c));
      for (const PlannedRange& it : made.ranges) EXPECT_EQ(it.lacking_on_gpus, "") << name;
      EXPECT_FALSE(shows(made.notes(), "not run")) << made.notes();
      EXPECT_TRUE(shows(made.launch(), " threads, ")) << made.launch();
    }
  }
}

// Where the model chooses a plan for which a launch has no room, GPUs run the best that fits.
TEST(MachinePlan, SaysWhatGpusRunInstead) {
  const MachinePlan made = planned("dgx1-v100", 1, Collective::kAllReduce);
  const auto marked = std::find_if(made.ranges.begin(), made.ranges.end(),
                                   [](const PlannedRange& it) { return shows(it.on_gpus, ", then "); });
  ASSERT_NE(marked, made.ranges.end());
  EXPECT_EQ(marked->choice.plan.text(), "two_phase(load)");
  EXPECT_TRUE(shows(marked->lacking_on_gpus, "more than a launch has (rank ")) << marked->lacking_on_gpus;
  EXPECT_EQ(marked->on_gpus, "flat(both, parts=2), then hierarchical(group: flat(store), all: recursive_doubling)");
  EXPECT_TRUE(shows(made.table(), "\n               on GPUs flat(both, parts=2), then ")) << made.table();
}

double simulated_seconds(const Topology& topology, const MachinePlanRequest& request) {
  return simulate_on_machine(topology, request, {}).run.seconds;
}

// Links join each GPU to all others, and no switch does: an algorithm that uses all of them at once is the fastest.
TEST(MachinePlan, ChoosesTheFastestAlgorithmForGpusThatAreLinkedInPairs) {
  for (const char* name : {"abci", "mi300x-8", "tsubame3"}) {
    const Topology topology = machine(name, 1);
    MachinePlanRequest request;
    request.bytes = 1 << 20;
    const double chosen = simulated_seconds(topology, request);
    for (const Algorithm& algorithm : algorithms()) {
      request.algorithm = algorithm.name;
      if (!serves(algorithm, request.collective) || algorithm.name == "hierarchical") continue;  // needs its levels
      try {
        EXPECT_LE(chosen, 1.001 * simulated_seconds(topology, request)) << name << ": " << algorithm.name;
      } catch (const Error& error) {  // what this machine lacks
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      }
    }
  }
}

TEST(MachinePlan, ShowsTimesThatWereMeasured) {
  const MachinePlan made = planned("hgx-h100-8", 1, Collective::kAllReduce, 2);
  const PlannedRange& first = made.ranges.front();
  ASSERT_FALSE(first.measured.empty());
  EXPECT_EQ(first.measured.front().bytes, 8u);
  EXPECT_LE(first.measured.back().bytes, first.to);
  EXPECT_TRUE(shows(made.table(), "us (m)  ")) << made.table();
  EXPECT_TRUE(shows(made.notes(), "2 x NVIDIA H100 80GB HBM3")) << made.notes();
  EXPECT_TRUE(shows(made.notes(), "plait bench all_reduce -b 8")) << made.notes();
  // Others were not measured, nor other GPUs, fewer SMs, or plans that no rule chose.
  EXPECT_TRUE(planned("hgx-h100-8", 1, Collective::kAllReduce, 4).ranges.front().measured.empty());
  EXPECT_TRUE(planned("hgx-h200-8", 1, Collective::kAllReduce, 2).ranges.front().measured.empty());
  Settings few_sms, forced;
  few_sms.max_sms = 8;
  EXPECT_TRUE(planned("hgx-h100-8", 1, Collective::kAllReduce, 2, few_sms).ranges.front().measured.empty());
  forced.algorithm = "all_reduce:one_shot(store)";
  EXPECT_TRUE(planned("hgx-h100-8", 1, Collective::kAllReduce, 2, forced).ranges.front().measured.empty());
}

TEST(MachinePlan, SaysWhatWasTooLarge) {
  const MachinePlan made = planned("abci", 725, Collective::kAllReduce);
  EXPECT_TRUE(shows(made.notes(), "too large to try over 2900 ranks: bruck, hierarchical_ring, ")) << made.notes();
  EXPECT_FALSE(made.left_out().empty());
  EXPECT_TRUE(planned("hgx-h100-8", 1, Collective::kAllReduce).left_out().empty());  // the model was not asked
}

TEST(MachinePlan, ATableForPeople) {
  const std::string table = planned("pcie-4", 1, Collective::kBroadcast).table();
  EXPECT_EQ(table.substr(0, 6), "size  ");
  EXPECT_TRUE(shows(table, "\nto ") && shows(table, "\nlonger ")) << table;
  EXPECT_TRUE(shows(table, " KiB  ")) << table;
  EXPECT_FALSE(shows(table, " \n")) << table;  // no spaces at ends of lines
  EXPECT_TRUE(shows(planned("pcie-4", 1, Collective::kBarrier).table(), "\nany "));
}

}  // namespace
}  // namespace plait
