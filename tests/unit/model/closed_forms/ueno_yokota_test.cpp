// Formulas of Ueno and Yokota, against steps, limits and each other.
#include "model/closed_forms/ueno_yokota.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/seed.hpp"

namespace plait::closed_forms {
namespace {

constexpr Start kStart = {kAbciStartSeconds, kAbciParts};
constexpr double kBetaInfiniband = 1 / kAbciInfinibandBandwidth;

// Reduce-scatter and all-gather of a ring, message by message: in each of p - 1 steps a rank sends s parts of a p-th.
double ring_step_by_step(double bytes, int ranks, double beta, const Start& start) {
  double seconds = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (int step = 1; step < ranks; ++step) {
      for (int part = 0; part < start.parts; ++part) {
        seconds += message_seconds(bytes / ranks / start.parts, start.seconds, beta);
      }
    }
  }
  return seconds;
}

std::vector<Layer> random_layers(test::Random& random) {
  std::uniform_int_distribution<int> count(1, 6), ranks(1, 9);
  std::uniform_real_distribution<double> beta(1e-12, 1e-9);
  std::vector<Layer> layers(static_cast<size_t>(count(random)));
  for (Layer& layer : layers) layer = {ranks(random), beta(random)};
  return layers;
}

TEST(UenoYokota, AHierarchyIsItsStepsSummed) {
  test::Random random(test::run_seed());
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<Layer> layers = random_layers(random);
    double bytes = 1e8, stepwise = 0;
    for (const Layer& layer : layers) {
      stepwise += ring_step_by_step(bytes, layer.ranks, layer.seconds_per_byte, kStart);
      bytes /= layer.ranks;
    }
    EXPECT_NEAR(hierarchy_seconds(1e8, layers, kStart), stepwise, 1e-12 * stepwise);
    EXPECT_NEAR(hierarchy_seconds_expanded(1e8, layers, kStart), stepwise, 1e-12 * stepwise);
  }
}

// UEN-20: a block of one bandwidth may be divided into layers in any way; the term with n is the same.
TEST(UenoYokota, TheGroupedFormIsTheDirectOne) {
  test::Random random(test::run_seed());
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Block> blocks;
    std::vector<Layer> layers;
    for (const Layer& block : random_layers(random)) {
      Block& made = blocks.emplace_back(Block{{}, block.seconds_per_byte});
      for (const Layer& inner : random_layers(random)) {
        made.factors.push_back(inner.ranks);
        layers.push_back({inner.ranks, block.seconds_per_byte});
      }
    }
    const double direct = hierarchy_seconds(1e8, layers, kStart);
    EXPECT_NEAR(grouped_hierarchy_seconds(1e8, blocks, kStart), direct, 1e-12 * direct);
  }
  const Start free = {0, 1};
  const double whole = grouped_hierarchy_seconds(1e8, std::vector<Block>{{{16}, 1e-9}}, free);
  EXPECT_DOUBLE_EQ(grouped_hierarchy_seconds(1e8, std::vector<Block>{{{2, 4, 2}, 1e-9}}, free), whole);
}

TEST(UenoYokota, RingAndRabenseifnerSendAsMuch) {
  for (int doublings = 0; doublings <= 11; ++doublings) {
    EXPECT_NEAR(rabenseifner_bytes(1e8, doublings), ring_bytes(1e8, 1 << doublings), 1e-4);
  }
  // D-UEN-06: with equal bandwidth everywhere, factors of 2 are never slower than the ring.
  const std::vector<Layer> ring = {{8, 1e-9}}, halves = {{2, 1e-9}, {2, 1e-9}, {2, 1e-9}};
  EXPECT_LT(hierarchy_seconds(1e8, halves, kStart), hierarchy_seconds(1e8, ring, kStart));
}

TEST(UenoYokota, Equation1IsTheHierarchyOfTwoLayers) {
  for (int nodes = 1; nodes <= 512; nodes *= 2) {
    const std::vector<Layer> layers = {{kGpusOfNode, kBetaInfiniband / kNvlinkOverInfiniband},
                                       {nodes, 2 * kBetaInfiniband}};
    const double direct = hierarchy_seconds(kAbciBytes, layers, kStart);
    EXPECT_NEAR(two_layer_seconds(kAbciBytes, nodes, kBetaInfiniband, kStart), direct, 1e-12 * direct);
    const std::vector<Layer> flat = {{kGpusOfNode * nodes, kBetaInfiniband / 2}};
    const double ring = hierarchy_seconds(kAbciBytes, flat, kStart);
    EXPECT_NEAR(flat_ring_seconds(kAbciBytes, nodes, kBetaInfiniband, kStart), ring, 1e-12 * ring);
    EXPECT_GT(flat_ring_seconds_one_hca(kAbciBytes, nodes, kBetaInfiniband, kStart), ring);
  }
}

// UEN-25: without start-up the flat ring is faster above six nodes, and equal at six.
TEST(UenoYokota, TheBandwidthTermsCrossAtSixNodes) {
  const Start free = {0, 1};
  for (int nodes = 2; nodes <= 20; ++nodes) {
    const double hierarchy = two_layer_seconds(1e9, nodes, kBetaInfiniband, free);
    const double ring = flat_ring_seconds(1e9, nodes, kBetaInfiniband, free);
    if (nodes == 6) {
      EXPECT_DOUBLE_EQ(hierarchy, ring);
    } else {
      EXPECT_EQ(hierarchy < ring, nodes < 6) << nodes;
    }
  }
}

TEST(UenoYokota, LimitsOfALayer) {
  EXPECT_EQ(layer_seconds(1e9, {1, 1e-9}, kStart), 0);                                    // nobody to talk to
  EXPECT_DOUBLE_EQ(layer_seconds(0, {5, 1e-9}, {1e-6, 3}), 2 * 3 * 1e-6 * 4);             // only start-up
  EXPECT_NEAR(layer_seconds(1e9, {1'000'000, 1e-9}, {0, 1}), 2, 1e-5);                    // twice the message
  EXPECT_DOUBLE_EQ(bus_bandwidth(1e9, 4, layer_seconds(1e9, {4, 1e-10}, {0, 1})), 1e10);  // what it was given
}

// Table II of the paper: bus bandwidths of 4x8x4 and of the flat ring give the speed-up of section V.B.3.
TEST(UenoYokota, TheSpeedUpOfThePaper) {
  const auto seconds = [](double bytes, int ranks, double bandwidth) { return ring_bytes(bytes, ranks) / bandwidth; };
  const double flat = seconds(kAbciBytes, 128, 11547.97e6);
  const double best = seconds(kAbciBytes, 4, 85956.47e6) + seconds(kAbciBytes / 4, 8, 4648.48e6) +
                      seconds(kAbciBytes / 32, 4, 3766.94e6);
  EXPECT_NEAR(flat / best, 1.39, 0.005);
}

}  // namespace
}  // namespace plait::closed_forms
