// Formulas of broadcasts against their steps.
#include "model/closed_forms/awan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace plait::closed_forms {
namespace {

constexpr LinkCost kLink = {2e-6, 12.5e9};
constexpr double kMessageBytes = 64 << 20;

// Rounds in which each rank that has the message sends it to one other, k - 1 times, before its children begin.
int messages_in_a_row(int ranks, int radix) {
  int have = 1, row = 0;
  while (have < ranks) {
    have = std::min(ranks, have * radix);
    row += radix - 1;
  }
  return row;
}

TEST(AwanForms, ATreeIsItsMessagesInARow) {
  for (int radix = 2; radix <= 8; ++radix) {
    for (int ranks = 1; ranks <= 1100; ++ranks) {
      EXPECT_DOUBLE_EQ(tree_broadcast_seconds(kMessageBytes, ranks, radix, kLink),
                       messages_in_a_row(ranks, radix) * kLink.seconds(kMessageBytes))
          << ranks << " ranks, radix " << radix;
    }
  }
}

TEST(AwanForms, ScatterAndGatherMoveTheMessageTwice) {
  for (int doublings = 1; doublings <= 10; ++doublings) {
    const int ranks = 1 << doublings;
    double scatter = 0, ring = 0, back = 0;
    for (double half = kMessageBytes / 2; half >= kMessageBytes / ranks; half /= 2) scatter += kLink.seconds(half);
    for (int step = 1; step < ranks; ++step) ring += kLink.seconds(kMessageBytes / ranks);
    for (double piece = kMessageBytes / ranks; piece < kMessageBytes; piece *= 2) back += kLink.seconds(piece);
    EXPECT_NEAR(scatter_ring_broadcast_seconds(kMessageBytes, ranks, kLink), scatter + ring, 1e-12);
    EXPECT_NEAR(scatter_doubling_broadcast_seconds(kMessageBytes, ranks, kLink), scatter + back, 1e-12);
  }
  EXPECT_EQ(scatter_ring_broadcast_seconds(kMessageBytes, 1, kLink), 0);
}

// Part i leaves rank r when it is there and the part before it has left.
double chain_by_parts(double bytes, int ranks, int parts, const LinkCost& link) {
  double last = 0;
  for (int part = 0; part < parts; ++part) {
    last = (part + 1) * link.seconds(bytes / parts);  // arrives at rank 1
  }
  return ranks == 1 ? 0 : last + (ranks - 2) * link.seconds(bytes / parts);
}

TEST(AwanForms, AChainIsAPipeline) {
  for (const int ranks : {1, 2, 3, 8, 64}) {
    for (const int parts : {1, 2, 7, 100}) {
      EXPECT_NEAR(chain_broadcast_seconds(kMessageBytes, ranks, parts, kLink),
                  chain_by_parts(kMessageBytes, ranks, parts, kLink), 1e-12);
    }
  }
}

TEST(AwanForms, NoNumberOfPartsIsBetterThanTheBest) {
  for (const int ranks : {3, 8, 64}) {
    const auto best = static_cast<int>(std::lround(best_chain_parts(kMessageBytes, ranks, kLink)));
    const double least = chain_broadcast_seconds(kMessageBytes, ranks, best, kLink);
    for (int parts = 1; parts < 4 * best; ++parts) {
      EXPECT_GE(chain_broadcast_seconds(kMessageBytes, ranks, parts, kLink), least * (1 - 1e-6)) << parts;
    }
  }
}

}  // namespace
}  // namespace plait::closed_forms
