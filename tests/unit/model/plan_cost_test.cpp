// Tests what the model says of plans that are not proved.
#include "model/plan_cost.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "algorithms/spec.hpp"
#include "base/error.hpp"
#include "property/plan_zoo.hpp"
#include "support/seed.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

// Every candidate of every algorithm, on one node and on several. A sanitizer gets one in seven.
TEST(PlanModel, CountsTheStepsThatTheVerifierFinds) {
  constexpr int kEvery = test::kSanitized ? 7 : 1;
  int plans = 0;
  for (const auto& [name, nodes] : {std::pair("summit", 1), {"abci", 3}, {"pcie-4", 1}}) {
    const Topology topology = machine(name, nodes);
    const Placement placement = place_ranks(topology, static_cast<int>(devices_of(topology, DeviceKind::kGpu).size()));
    Routes routes(topology, placement);
    for (int c = 0; c < kCollectiveCount; ++c) {
      const auto collective = static_cast<Collective>(c);
      const AlgorithmArguments arguments = arguments_for(topology, placement, collective);
      for (const Algorithm& algorithm : algorithms()) {
        if (!serves(algorithm, collective)) continue;
        for (const AlgorithmArguments& it : algorithm.candidates(arguments)) {
          if (++plans % kEvery != 0) continue;
          const Plan plan = algorithm.make(it);
          EXPECT_EQ(PlanModel(plan, routes).steps(), verify(plan).report().steps) << plan.algorithm << " on " << name;
        }
      }
    }
  }
  EXPECT_GT(plans, 200);
}

// One rank stores to the next, which stores to the next: two links in a row, each crossed by the whole message.
TEST(PlanModel, AddsUpWhatWaitsForEachOther) {
  const Topology topology = machine("tsubame3");
  const Placement placement = place_ranks(topology, 3);
  Routes routes(topology, placement);
  const Plan plan = test::chain_broadcast(3, 0, 1);
  const PlanModel model(plan, routes);
  EXPECT_EQ(model.steps(), 2);
  EXPECT_NEAR(model.load().chain_seconds, 2 * model.load().busiest_seconds, 1e-15);

  Costs costs;
  costs.launch_seconds = 1e-6;
  costs.signal_seconds[static_cast<size_t>(LinkKind::kNvlink)] = 3e-6;
  EXPECT_NEAR(model.curve(costs).seconds(0), 1e-6 + 2 * 3e-6, 1e-12);
  costs.ll.signal_share = 0.5;
  EXPECT_NEAR(model.curve(costs, FlagPlace::kEvery8Bytes).seconds(0), 1e-6 + 3e-6, 1e-12);
  const double megabyte = model.curve(costs).seconds(1e6);
  EXPECT_NEAR(megabyte, 1e-6 + 2 * 3e-6 + 1e6 * model.load().chain_seconds, 1e-9);
}

// A message costs each of its ends something, and more where an end has several. One within a node costs nothing.
TEST(PlanModel, CountsMessagesBetweenNodes) {
  Costs costs;
  costs.message_seconds = 5e-6;
  const auto seconds_of = [&](const char* algorithm, const char* name, int nodes, int ranks) {
    const Topology topology = machine(name, nodes);
    const Placement placement = place_ranks(topology, ranks);
    Routes routes(topology, placement);
    const AlgorithmArguments arguments = arguments_for(topology, placement, Collective::kAllReduce);
    const AlgorithmSpec spec = parse_spec(algorithm, Collective::kAllReduce);
    const Plan plan = find_algorithm(spec.name, Collective::kAllReduce).make(resolve(spec, arguments));
    return PlanModel(plan, routes).curve(costs).seconds(0);
  };
  EXPECT_NEAR(seconds_of("recursive_doubling", "pcie-4", 1, 4), 0, 1e-12);
  // Every rank has one GPU of a node, and sends and receives once in each of two steps.
  EXPECT_GE(seconds_of("recursive_doubling", "pcie-4", 4, 16), 4 * 5e-6);
}

TEST(PlanModel, RefusesWhatIsPlacedElsewhere) {
  const Topology topology = machine("tsubame3");
  const Placement placement = place_ranks(topology, 4);
  Routes routes(topology, placement);
  EXPECT_THROW(PlanModel(test::ring_all_reduce(3), routes), Error);
}

}  // namespace
}  // namespace plait
