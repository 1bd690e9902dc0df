// Calls that follow each other: roots run ahead of those who take their data, and nobody else does.
#include "model/simulator/calls.hpp"

#include <gtest/gtest.h>

#include "algorithms/algorithm.hpp"
#include "model/simulator/simulation.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

constexpr double kBytes = 1e9, kMemoryGbps = 10;

Costs costs_of_memory(double launch_seconds) {
  Costs costs;
  costs.launch_seconds = launch_seconds;
  costs.memory_gbps = kMemoryGbps;
  return costs;
}

struct Timed {
  double once = 0, in_a_row = 0;
};

Timed timed(const Plan& plan, const Costs& costs, int calls) {
  const Topology topology = machine("hgx-h100-8");
  const Placement placement = place_ranks(topology, plan.rank_count());
  Routes routes(topology, placement);
  const SimulatorProgram one = compile(plan, check_form(plan), routes);
  const SimulatorProgram many = in_a_row(one, calls);
  const SimulatedMachine of_one(one, topology, costs, FlagPlace::kBehindData, kBytes);
  const SimulatedMachine of_many(many, topology, costs, FlagPlace::kBehindData, kBytes);
  return {simulate(one, of_one, kBytes).seconds, seconds_between_calls(many, of_many, simulate(many, of_many, kBytes))};
}

// The root reads the message, and writes its output and where the other one finds it; that one reads and writes it.
Plan broadcast(int ranks) {
  AlgorithmArguments arguments;
  arguments.collective = Collective::kBroadcast;
  arguments.ranks = ranks;
  return find_algorithm("chain", Collective::kBroadcast).make(arguments);
}

TEST(Calls, ARootIsAheadOfThoseWhoTakeItsData) {
  const Timed it = timed(broadcast(2), costs_of_memory(0), 8);
  EXPECT_NEAR(it.once, 0.5, 0.01);
  EXPECT_NEAR(it.in_a_row, 0.3, 0.01);
}

TEST(Calls, EachCostsWhatACallDoes) {
  constexpr double kLaunch = 0.3;
  const Timed without = timed(broadcast(2), costs_of_memory(0), 8);
  const Timed with = timed(broadcast(2), costs_of_memory(kLaunch), 8);
  EXPECT_NEAR(with.once - without.once, kLaunch, 1e-9);
  EXPECT_NEAR(with.in_a_row - without.in_a_row, kLaunch, 1e-9);
}

TEST(Calls, CachesHelpEachCallAsTheyHelpOne) {
  Costs costs = costs_of_memory(0);
  costs.cache_gbps = 100 * kMemoryGbps;
  costs.cache_bytes = kBytes;
  const Timed two = timed(broadcast(2), costs, 2), eight = timed(broadcast(2), costs, 8);
  EXPECT_NEAR(eight.in_a_row, two.in_a_row, 1e-9);
  EXPECT_NEAR(eight.in_a_row, 0.2 + 0.001, 1e-3);  // a third of what the root moves is in its cache
}

TEST(Calls, OneIsTheCallItself) {
  const Timed it = timed(broadcast(4), costs_of_memory(1e-3), 1);
  EXPECT_GT(it.once, 0);
  EXPECT_NEAR(it.in_a_row, it.once, 2e-3);  // the launch counts once more or less
}

}  // namespace
}  // namespace plait
