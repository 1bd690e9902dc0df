// Hierarchical ring: the traces and sizes of UEN-13..16.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>

#include "support/seed.hpp"
#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments rings(const std::vector<int>& factors) {
  AlgorithmArguments arguments;
  arguments.factors = factors;
  arguments.ranks = std::accumulate(factors.begin(), factors.end(), 1, std::multiplies<>());
  return arguments;
}

// The ranks to which a rank stores, and how many chunks, in the order of its operations.
std::vector<std::pair<int, int>> stores(const Plan& plan, int rank) {
  std::vector<std::pair<int, int>> found;
  for (const Operation& reduce : test::operations(plan, rank, OpKind::kReduce)) {
    for (const Place& place : reduce.destinations) {
      if (place.rank != rank) found.emplace_back(place.rank, reduce.chunks);
    }
  }
  return found;
}

// UEN-13: reduce-scatter in {0,1},{2,3}, then {0,2},{1,3}; all-gather in reverse; in between ranks 0, 2, 1, 3 hold
// chunks 0..3.
TEST(HierarchicalRing, InPairsIsRabenseifner) {
  const VerifiedPlan plan = test::verified("hierarchical_ring", rings({2, 2}));
  using Trace = std::vector<std::pair<int, int>>;
  EXPECT_EQ(stores(plan.plan(), 0), (Trace{{1, 2}, {2, 1}, {2, 1}, {1, 2}}));
  EXPECT_EQ(stores(plan.plan(), 1), (Trace{{0, 2}, {3, 1}, {3, 1}, {0, 2}}));
  EXPECT_EQ(stores(plan.plan(), 2), (Trace{{3, 2}, {0, 1}, {0, 1}, {3, 2}}));
  EXPECT_EQ(stores(plan.plan(), 3), (Trace{{2, 2}, {1, 1}, {1, 1}, {2, 2}}));
  const int holder[] = {0, 2, 1, 3};
  for (int chunk = 0; chunk < 4; ++chunk) {
    int completed_by = -1;
    for (int rank = 0; rank < 4; ++rank) {
      for (size_t i = 0; i < plan.plan().ranks[rank].queues[0].operations.size(); ++i) {
        const Operation& operation = plan.plan().ranks[rank].queues[0].operations[i];
        if (plan.report().facts[rank][0][i].finishes && operation.chunk == chunk) completed_by = rank;
      }
    }
    EXPECT_EQ(completed_by, holder[chunk]);
  }
}

TEST(HierarchicalRing, AllTwosTakesTwoLogSteps) {
  for (int height = 1; height <= 6; ++height) {
    const VerifiedPlan plan = test::verified("hierarchical_ring", rings(std::vector<int>(height, 2)));
    EXPECT_EQ(plan.report().steps, 2 * height);
  }
}

TEST(HierarchicalRing, OneFactorIsTheRing) {
  Plan hierarchical = make_plan("hierarchical_ring", rings({7}));
  AlgorithmArguments arguments = rings({7});
  arguments.factors.clear();
  const Plan flat_ring = make_plan("ring", arguments);
  EXPECT_EQ(hierarchical.algorithm, "hierarchical_ring(7)");
  hierarchical.algorithm = flat_ring.algorithm;
  EXPECT_EQ(hierarchical, flat_ring);
}

// UEN-15, Fig. 1: 128 = 4 x 8 x 4; x within a node, y among eight nodes, z among four; UEN-16: pieces of n/4, n/32 and
// n/128 out of messages of n, n/4 and n/32.
TEST(HierarchicalRing, FiveStepsOf128Ranks) {
  const std::clock_t start = std::clock();  // of this process: other load on the machine does not count
  const VerifiedPlan plan = test::verified("hierarchical_ring", rings({4, 8, 4}));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::cout << "128 ranks as 4x8x4: made and verified in " << seconds << " s\n";
  EXPECT_LT(seconds, 5.0);
  EXPECT_EQ(plan.report().steps, 2 * (3 + 7 + 3));
  for (const int rank : {0, 1, 37, 127}) {
    const int x = rank % 4, y = rank / 4 % 8, z = rank / 32;
    const int next_x = rank - x + (x + 1) % 4;
    const int next_y = rank + ((y + 1) % 8 - y) * 4;
    const int next_z = rank + ((z + 1) % 4 - z) * 32;
    std::vector<std::pair<int, int>> expected;
    expected.insert(expected.end(), 3, {next_x, 32});
    expected.insert(expected.end(), 7, {next_y, 4});
    expected.insert(expected.end(), 6, {next_z, 1});
    expected.insert(expected.end(), 7, {next_y, 4});
    expected.insert(expected.end(), 3, {next_x, 32});
    EXPECT_EQ(stores(plan.plan(), rank), expected) << rank;
    EXPECT_EQ(plan.plan().ranks[rank].scratch_slots, 128 + 32 + 4);
  }
}

void for_each_factorisation(int product, std::vector<int>& factors, const std::function<void()>& call) {
  if (product == 1) return call();
  for (int factor = 2; factor <= product; ++factor) {
    if (product % factor != 0) continue;
    factors.push_back(factor);
    for_each_factorisation(product / factor, factors, call);
    factors.pop_back();
  }
}

// UEN-14: all of them, with the same volume and the documented steps.
TEST(HierarchicalRing, EveryOrderedFactorisationUpTo64) {
  int plans = 0;
  const int most = test::kSanitized ? 24 : 64;
  for (int ranks = 2; ranks <= most; ++ranks) {
    std::vector<int> factors;
    for_each_factorisation(ranks, factors, [&] {
      AlgorithmArguments arguments = rings(factors);
      arguments.access = ++plans % 2 == 0 ? Access::kZeroCopy : Access::kStaged;
      const VerifiedPlan plan = test::verified("hierarchical_ring", arguments);
      int steps = 0;
      for (const int factor : factors) steps += 2 * (factor - 1);
      EXPECT_EQ(plan.report().steps, steps);
      std::map<int, int64_t> sent;
      for (const Traffic& traffic : plan.report().traffic) sent[traffic.from.rank] += traffic.chunks;
      for (const auto& [rank, chunks] : sent) EXPECT_EQ(chunks, 2 * (ranks - 1)) << plan.plan().algorithm;
    });
  }
  std::cout << plans << " factorisations\n";
  EXPECT_GT(plans, test::shortened(300));
}

TEST(HierarchicalRing, DerivesFactorsFromGroupsAndNodes) {
  const auto label = [](const AlgorithmArguments& arguments) {
    return make_plan("hierarchical_ring", arguments).algorithm;
  };
  AlgorithmArguments arguments;
  arguments.ranks = 12;
  EXPECT_EQ(label(arguments), "hierarchical_ring(2x2x3)");
  arguments.groups = {{0, 1, 2}, {3, 5, 4}, {8, 7, 6}, {9, 10, 11}};
  EXPECT_EQ(label(arguments), "hierarchical_ring(3x4)");
  arguments.node_of = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(label(arguments), "hierarchical_ring(3x2x2)");
  arguments.groups = {};
  EXPECT_EQ(label(arguments), "hierarchical_ring(6x2)");
  arguments.node_of = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};  // no neighbours on one node
  EXPECT_EQ(label(arguments), "hierarchical_ring(2x2x3)");
  arguments.node_of = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1};  // nodes of different sizes
  EXPECT_EQ(label(arguments), "hierarchical_ring(2x2x3)");
  arguments.node_of = std::vector<int>(12, 3);
  EXPECT_EQ(label(arguments), "hierarchical_ring(2x2x3)");
  arguments.ranks = 1;
  arguments.node_of = {};
  EXPECT_EQ(label(arguments), "hierarchical_ring(1)");
  arguments.ranks = 13;
  EXPECT_EQ(label(arguments), "hierarchical_ring(13)");
}

TEST(HierarchicalRing, RefusesOtherProducts) {
  const auto refused = [](int ranks, const std::vector<int>& factors, const std::string& part) {
    AlgorithmArguments arguments;
    arguments.ranks = ranks;
    arguments.factors = factors;
    test::expect_invalid([&] { make_plan("hierarchical_ring", arguments); }, part);
  };
  refused(8, {2, 2}, "number of ranks, 8");
  refused(8, {3, 3}, "number of ranks, 8");
  refused(8, {0, 8}, "factor 0");
  refused(8, {-2, -4}, "factor -2");
  refused(8, std::vector<int>(100, 1 << 20), "number of ranks, 8");
}

}  // namespace
}  // namespace plait
