// NV-Group's equations against steps, limits and each other.
#include "model/closed_forms/nv_group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/seed.hpp"

namespace plait::closed_forms {
namespace {

constexpr LinkCost kNic = {2e-6, 12.5e9};
constexpr ReduceCost kReduce = {3e-6, 1e-12};
constexpr double kBytes = 134217728;

struct SomeCosts {
  LinkCost link;
  ReduceCost reduce;
  double bytes = 0;
};

SomeCosts random_costs(test::Random& random) {
  std::uniform_real_distribution<double> start(0, 1e-5), bandwidth(1e9, 5e11), per_byte(0, 1e-11), bytes(1, 1e9);
  return {{start(random), bandwidth(random)}, {start(random), per_byte(random)}, bytes(random)};
}

// A ring all-reduce, chunk by chunk: in p - 1 steps every rank sends a chunk and combines the one that it gets, then in
// p - 1 steps it passes on finished ones.
double ring_by_steps(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce) {
  double seconds = 0;
  for (int step = 1; step < ranks; ++step) seconds += link.seconds(bytes / ranks) + reduce.seconds(bytes / ranks);
  for (int step = 1; step < ranks; ++step) seconds += link.seconds(bytes / ranks);
  return seconds;
}

TEST(NvGroupForms, ARingIsItsStepsSummed) {
  test::Random random(test::run_seed());
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const auto [link, reduce, bytes] = random_costs(random);
    const double steps = ring_by_steps(bytes, ranks, link, reduce);
    EXPECT_NEAR(ring_all_reduce_seconds(bytes, ranks, link, reduce), steps, 1e-12 * steps);
    EXPECT_GE(naive_ring_seconds(bytes, ranks, link, reduce), steps * (1 - 1e-12));
  }
}

// 2 (p-1)/p M/B is what a port must move.
TEST(NvGroupForms, NothingButThePrintedTreeBeatsThePort) {
  const ReduceCost free = {0, 0};
  const LinkCost link = {0, 12.5e9};
  for (int ranks = 2; ranks <= 2048; ranks *= 2) {
    const double bound = 2.0 * (ranks - 1) / ranks * kBytes / link.bandwidth;
    EXPECT_NEAR(ring_all_reduce_seconds(kBytes, ranks, link, free), bound, 1e-9 * bound);
    EXPECT_NEAR(rabenseifner_seconds(kBytes, ranks, link, free), bound, 1e-9 * bound);
    EXPECT_GE(double_tree_seconds(kBytes, ranks, 1 << 20, link, free), bound);
    EXPECT_GT(rabenseifner_seconds_as_printed(kBytes, ranks, link, free), bound);
    if (ranks > 2) {
      EXPECT_LT(double_tree_seconds_as_printed(kBytes, ranks, link, free), bound);  // D-NVG-03
    }
  }
  // The figures of the register of doubts.
  EXPECT_NEAR(double_tree_seconds_as_printed(kBytes, 1536, link, free), 0.074e-3, 0.001e-3);
  EXPECT_NEAR(2.0 * 1535 / 1536 * kBytes / link.bandwidth, 21.5e-3, 0.05e-3);
}

TEST(NvGroupForms, PipelinedTreesComeCloseToThePort) {
  const LinkCost link = {0, 12.5e9};
  const double port = 2 * kBytes / link.bandwidth;
  EXPECT_NEAR(double_tree_seconds(kBytes, 1024, 1 << 20, link, {0, 0}), port, 1e-4 * port);
  // One part, two ranks: the half message up and down, one after the other, on both trees.
  EXPECT_NEAR(double_tree_seconds(kBytes, 2, 1, link, {0, 0}), 2 * port, 1e-12);
  EXPECT_EQ(double_tree_seconds(kBytes, 1, 4, kNic, kReduce), 0);
}

TEST(NvGroupForms, HalvingByStepsAddsLaunches) {
  for (int doublings = 0; doublings <= 11; ++doublings) {
    const int ranks = 1 << doublings;
    const double whole = rabenseifner_seconds(kBytes, ranks, kNic, kReduce);
    const double steps = rabenseifner_seconds_by_steps(kBytes, ranks, kNic, kReduce);
    EXPECT_NEAR(steps - whole, (doublings - 1) * kReduce.start_seconds, 1e-9 * whole) << ranks;
  }
  // Six ranks: four halve, two fold in and out.
  const double folded = rabenseifner_seconds_by_steps(kBytes, 6, kNic, kReduce);
  const double four = rabenseifner_seconds_by_steps(kBytes, 4, kNic, kReduce);
  EXPECT_NEAR(folded - four, 2 * kNic.seconds(kBytes) + kReduce.seconds(kBytes), 1e-12);
}

TEST(NvGroupForms, ScatterFirstGivesTheSameBytesOverASharedPort) {
  const ReduceCost free = {0, 0};
  for (const int gpus : {2, 4, 6, 8}) {
    for (const int nodes : {2, 3, 16}) {
      const LinkCost inside = {0, 50e9}, port = {0, 12.5e9}, share = {0, 12.5e9 / gpus};
      const double printed_between = ring_all_reduce_seconds(kBytes, nodes, port, free);
      const double scattered = scattered_rings_seconds(kBytes, nodes, gpus, inside, share, free);
      EXPECT_NEAR(scattered - ring_all_reduce_seconds(kBytes, gpus, inside, free), printed_between, 1e-12);
      EXPECT_NEAR(two_rings_seconds(kBytes, nodes, gpus, port, free),
                  printed_between + ring_all_reduce_seconds(kBytes, gpus, port, free), 1e-12);
    }
  }
}

// NVG-59: for long messages the ring over groups moves what the flat ring moves, with fewer start-ups.
TEST(NvGroupForms, ARingOverGroupsHasTheStepsOfItsGroups) {
  const int nodes = 256, ranks = 6 * nodes;
  const GroupedMachine summit = {2 * nodes, 3, kNic, 50e9, 0};
  EXPECT_NEAR(ring_all_reduce_seconds(1e13, ranks, kNic, {0, 0}) / group_ring_seconds(1e13, summit, {0, 0}), 1, 2e-3);
  const double of_groups = group_ring_seconds(0, summit, {0, 0}),
               of_ranks = ring_all_reduce_seconds(0, ranks, kNic, {0, 0});
  EXPECT_NEAR(of_ranks / of_groups, (ranks - 1.0) / (summit.groups - 1.0), 1e-12);  // about p / N_nv
}

// Group by group: the first chunk, then G - 1 steps up and G - 1 down.
TEST(NvGroupForms, EquationTenIsItsStepsSummed) {
  test::Random random(test::run_seed());
  std::uniform_int_distribution<int> groups(1, 40), gpus(1, 8);
  for (int trial = 0; trial < 200; ++trial) {
    const auto [link, reduce, bytes] = random_costs(random);
    const GroupedMachine it = {groups(random), gpus(random), link, 40e9, 0};
    const double chunk = bytes / it.groups, piece = chunk / it.gpus_of_group;
    double steps = 2 * piece / it.nvlink_bandwidth + reduce.seconds(piece);
    for (int step = 1; step < it.groups; ++step) steps += link.seconds(chunk) + reduce.seconds(piece);
    for (int step = 1; step < it.groups; ++step) steps += link.seconds(chunk);
    EXPECT_NEAR(group_ring_seconds(bytes, it, reduce), steps, 1e-12 * steps);
    EXPECT_GT(group_ring_seconds_with_nvlink(bytes, it, reduce), steps);
    GroupedMachine fast = it;
    fast.nvlink_bandwidth = 1e30;  // (7b) to (9b) add terms of NVLink only
    EXPECT_NEAR(group_ring_seconds_with_nvlink(bytes, fast, reduce), group_ring_seconds(bytes, fast, reduce),
                1e-12 * steps);
  }
}

// A switch's port carries the loads of all partners.
TEST(NvGroupForms, ASwitchHasOnePort) {
  GroupedMachine dgx2 = {2, 8, kNic, 150e9, 150e9};
  const double narrow = group_ring_seconds_with_nvlink(kBytes, dgx2, {0, 0});
  dgx2.switch_bandwidth = 300e9;
  const double wide = group_ring_seconds_with_nvlink(kBytes, dgx2, {0, 0});
  EXPECT_NEAR(narrow - wide, 7 * kBytes / 16 * (1 / 150e9 - 1 / 300e9), 1e-12);
}

}  // namespace
}  // namespace plait::closed_forms
