// Blink's counts of links on four fully connected GPUs and on a DGX-1.
#include "model/closed_forms/blink.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace plait::closed_forms {
namespace {

constexpr double kLinkRate = 20e9, kMessage = 1e9;

using Loads = std::vector<std::vector<double>>;  // bytes over the link from i to j

double busiest_seconds(const Loads& loads) {
  double most = 0;
  for (const auto& row : loads) most = std::max(most, *std::max_element(row.begin(), row.end()));
  return most / kLinkRate;
}

TEST(BlinkForms, ThreeTreesUseEachLinkOnce) {
  Loads trees(4, std::vector<double>(4)), rings(4, std::vector<double>(4));
  for (int child = 1; child < 4; ++child) {
    trees[0][child] += kMessage / 3;
    for (int other = 1; other < 4; ++other) trees[child][other] += child == other ? 0 : kMessage / 3;
  }
  for (int step = 0; step < 3; ++step) {
    rings[step][step + 1] += kMessage / 2;            // 0 1 2 3
    rings[(4 - step) % 4][3 - step] += kMessage / 2;  // 0 3 2 1
  }
  EXPECT_DOUBLE_EQ(three_trees_broadcast_seconds(kMessage, kLinkRate), busiest_seconds(trees));
  EXPECT_DOUBLE_EQ(two_rings_broadcast_seconds(kMessage, kLinkRate), busiest_seconds(rings));
  EXPECT_DOUBLE_EQ(two_rings_broadcast_seconds(1, 1) / three_trees_broadcast_seconds(1, 1), 1.5);
}

// Chunk i goes to GPU i from all others, and back to all others.
TEST(BlinkForms, ACliqueReducesInItsLinks) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    Loads loads(static_cast<size_t>(ranks), std::vector<double>(static_cast<size_t>(ranks)));
    for (int owner = 0; owner < ranks; ++owner) {
      for (int other = 0; other < ranks; ++other) {
        if (other == owner) continue;
        loads[other][owner] += kMessage / ranks;
        loads[owner][other] += kMessage / ranks;
      }
    }
    EXPECT_NEAR(clique_all_reduce_seconds(kMessage, ranks, kLinkRate), busiest_seconds(loads), 1e-15);
  }
}

TEST(BlinkForms, FourGpus) {
  // K4: one ring 0.75 n/b; Blink in two steps n/(2b), which is what two packed trees allow.
  EXPECT_DOUBLE_EQ(rings_all_reduce_seconds(kMessage, 4, 1, kLinkRate), 0.75 * kMessage / kLinkRate);
  EXPECT_DOUBLE_EQ(clique_all_reduce_seconds(kMessage, 4, kLinkRate), packed_trees_seconds(kMessage, 2, kLinkRate));
}

}  // namespace
}  // namespace plait::closed_forms
