// Rules that were measured on other machines, beside paths that those did not use.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/seed.hpp"
#include "topology/machines.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

Tuner tuner_of_pair(const char* name, const PlanLimits& limits = {}) {
  const Topology topology = machine(name, 1);
  const std::vector<int> gpus = devices_of(topology, DeviceKind::kGpu);
  return Tuner(place_on(topology, std::vector{gpus[0], gpus[1]}, {}), {}, limits, true);
}

// TEM-03, TEM-09: a rule for two GPUs knows one path between them. These have another that is worth it.
TEST(Guesses, GiveWayToMorePaths) {
  for (const char* name : {"mist", "lassen", "cedar", "dgx1-v100"}) {
    Tuner tuner = tuner_of_pair(name);
    for (const Collective collective : {Collective::kBroadcast, Collective::kAllReduce, Collective::kAllGather}) {
      const Choice choice = tuner.choose({collective, size_t{1} << 28});
      EXPECT_EQ(choice.plan.algorithm, "multi_path") << name << ", " << plait::name(collective);
      EXPECT_FALSE(choice.is_measured);
      EXPECT_EQ(choice.origin(), "");
      EXPECT_FALSE(choice.zero_copy || choice.ending);  // they are for one path as well
      EXPECT_TRUE(tuner.choose({collective, 4096}).is_measured);
    }
  }
}

// Only what a link cannot carry in that time, at the efficiency that links have.
TEST(Guesses, HoldWhereLinksAllowThem) {
  constexpr double kLinkGbps = 50;  // of Cedar's two lanes, which carry a broadcast once
  test::Random random(test::run_seed());
  Tuner tuner = tuner_of_pair("cedar");
  const double efficiency = tuner.machine().profile->costs.link_efficiency;
  int guesses = 0, others = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t bytes = test::between(random, 1, size_t{1} << test::between(random, 10, 30));
    const Choice choice = tuner.choose({Collective::kBroadcast, bytes});
    const double seconds = tuner.cost(choice).seconds(static_cast<double>(bytes));
    const double least = static_cast<double>(bytes) / (kLinkGbps * 1e9 * efficiency);
    EXPECT_TRUE(choice.is_measured || seconds < least) << bytes;
    (choice.is_measured ? guesses : others) += 1;
  }
  EXPECT_GT(guesses, 0);
  EXPECT_GT(others, 0);
}

TEST(Guesses, HoldForRuntimesWithoutTheOtherPaths) {
  PlanLimits limits;
  limits.host_memory = false;
  Tuner tuner = tuner_of_pair("mist", limits);
  const Choice choice = tuner.choose({Collective::kBroadcast, size_t{1} << 28});
  EXPECT_TRUE(choice.is_measured);
  EXPECT_NE(choice.measured_elsewhere, "");
}

// PCIe adds a twentieth to NVLink there, and predictions are no better than that.
TEST(Guesses, HoldWhereOtherPathsAddLittle) {
  for (const char* name : {"hgx-b200-8", "nvlink-pairs"}) {
    EXPECT_TRUE(tuner_of_pair(name).choose({Collective::kAllReduce, size_t{1} << 30}).is_measured) << name;
  }
}

TEST(Guesses, WhatWasMeasuredHereStays) {
  const Choice choice = tuner_of_pair("hgx-h200-4").choose({Collective::kBroadcast, size_t{1} << 30});
  EXPECT_TRUE(choice.is_measured || choice.zero_copy);
  EXPECT_EQ(choice.measured_elsewhere, "");
}

}  // namespace
}  // namespace plait
