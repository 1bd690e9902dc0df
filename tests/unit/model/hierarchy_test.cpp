// Hierarchies on machines: layers, times and searches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.hpp"
#include "model/closed_forms/ueno_yokota.hpp"
#include "model/hierarchy_search.hpp"
#include "support/seed.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

struct Ranks {
  Ranks(const char* name, int nodes, int ranks)
      : topology(machine(name, nodes)), placement(place_ranks(topology, ranks)) {}
  Topology topology;
  Placement placement;
};

RingLayer layer_of(const char* name, int nodes, int ranks, int stride, int length) {
  const Ranks on(name, nodes, ranks);
  return RingLayers(on.topology, on.placement).layer(stride, length);
}

void expect_layer(const RingLayer& layer, RingMedium medium, double gbps) {
  EXPECT_STREQ(name(layer.medium), name(medium));
  EXPECT_NEAR(layer.gbps, gbps, 1e-9 * gbps) << layer.length << " ranks, " << layer.stride << " apart";
}

constexpr auto kNvlink = static_cast<RingMedium>(LinkKind::kNvlink);
constexpr auto kNetwork = static_cast<RingMedium>(LinkKind::kNetwork);

// UEN-21, UEN-22, UEN-24: four GPUs that NVLink joins, each pair with 50 GB/s, and two HCAs of 12.5 GB/s.
TEST(RingLayers, OfAbci) {
  expect_layer(layer_of("abci", 8, 32, 1, 4), kNvlink, 150);    // all links of four GPUs
  expect_layer(layer_of("abci", 8, 32, 1, 2), kNvlink, 50);     // one link
  expect_layer(layer_of("abci", 8, 32, 2, 2), kNvlink, 50);     // another
  expect_layer(layer_of("abci", 8, 32, 4, 8), kNetwork, 6.25);  // four rings over two HCAs
  expect_layer(layer_of("abci", 8, 32, 4, 2), kNetwork, 6.25);
  expect_layer(layer_of("abci", 8, 32, 1, 32), kMixed, 25);  // one ring over both
  expect_layer(layer_of("abci", 8, 32, 2, 16), kMixed, 12.5);
}

// UEN-29, UEN-46: racks of 32 nodes with a third of full bisection.
TEST(RingLayers, RacksNarrowTheRingsThatLeaveThem) {
  expect_layer(layer_of("abci", 64, 256, 32, 8), kNetwork, 6.25);  // eight nodes apart: 8 of 32 rings leave
  expect_layer(layer_of("abci", 64, 256, 64, 4), kNetwork, 12.5 * 64 / 3 / (16 * 4));
  expect_layer(layer_of("abci", 64, 256, 128, 2), kNetwork, 6.25 / 3);
}

TEST(RingLayers, OfSwitchesAndOfOneNode) {
  expect_layer(layer_of("hgx-h100-8", 1, 8, 1, 8), kNvlink, 18 * 26.5625);
  expect_layer(layer_of("hgx-h100-8", 1, 8, 2, 4), kNvlink, 18 * 26.5625);
  EXPECT_EQ(layer_of("hgx-h100-8", 1, 8, 8, 1).gbps, std::numeric_limits<double>::infinity());
}

TEST(RingLayers, RefusesRingsThatDoNotFit) {
  EXPECT_THROW(layer_of("abci", 2, 8, 1, 3), Error);
  EXPECT_THROW(layer_of("abci", 2, 8, 4, 4), Error);
  EXPECT_THROW(layer_of("abci", 2, 8, 0, 2), Error);
}

Costs paper_costs() {
  Costs costs;
  costs.rings.parts = closed_forms::kAbciParts;
  for (RingCosts& ring : costs.rings.of_medium) ring = {closed_forms::kAbciStartSeconds, 1, 0, 0};
  return costs;
}

// With the paper's constants alone the model is the paper's formula.
TEST(HierarchyModel, IsTheFormulaOfThePaper) {
  const Ranks on("abci", 32, 128);
  HierarchyModel model(on.topology, on.placement, paper_costs());
  const std::vector<closed_forms::Layer> layers = {{4, 1 / 150e9}, {8, 1 / 6.25e9}, {4, 1 / 6.25e9}};
  const double expected =
      closed_forms::hierarchy_seconds(1e8, layers, {closed_forms::kAbciStartSeconds, closed_forms::kAbciParts});
  const std::vector<int> factors = {4, 8, 4};
  EXPECT_NEAR(model.seconds(factors, 1e8), expected, 1e-12 * expected);
  const std::vector<LayerTime> times = model.layer_times(factors, 1e8);
  ASSERT_EQ(times.size(), 3u);
  EXPECT_DOUBLE_EQ(times[0].seconds + times[1].seconds + times[2].seconds, model.seconds(factors, 1e8));
  EXPECT_EQ(times[2].bytes, 1e8 / 32);
}

// UEN-52: a bandwidth that does not depend on the size favours ever deeper hierarchies, and one that does ends that.
TEST(HierarchyModel, DepthPaysUntilMessagesAreSmall) {
  const Ranks on("abci", 32, 128);
  Costs costs = paper_costs();
  HierarchyModel free(on.topology, on.placement, costs);
  const std::vector<int> shallow = {4, 8, 4}, deep = {4, 2, 2, 2, 2, 2};
  EXPECT_LT(free.seconds(deep, 1e8), free.seconds(shallow, 1e8));
  costs.rings.of(kNetwork).exposed_steps = 0.5;
  HierarchyModel exposed(on.topology, on.placement, costs);
  EXPECT_GT(exposed.seconds(deep, 1e8), exposed.seconds(shallow, 1e8));
  costs.rings.of(kNetwork).half_bytes = 1e5;
  HierarchyModel small(on.topology, on.placement, costs);
  EXPECT_GT(small.seconds(shallow, 1e8), exposed.seconds(shallow, 1e8));
}

TEST(HierarchySearch, CountsOrderedFactorisations) {
  for (int k = 1; k <= 11; ++k) EXPECT_EQ(ordered_factorisations(1 << k, 1 << 20), 1 << (k - 1));
  EXPECT_EQ(ordered_factorisations(1, 100), 1);
  EXPECT_EQ(ordered_factorisations(12, 100), 8);
  EXPECT_EQ(ordered_factorisations(13, 100), 1);
  EXPECT_EQ(ordered_factorisations(12, 5), 5);
}

Costs random_costs(test::Random& random) {
  std::uniform_real_distribution<double> share(0.05, 1), steps(0, 2), start(0, 1e-4), half(0, 1e6);
  Costs costs;
  costs.launch_seconds = start(random);
  costs.rings.parts = 1 + static_cast<int>(random() % 4);
  for (RingCosts& ring : costs.rings.of_medium) ring = {start(random), share(random), half(random), steps(random)};
  return costs;
}

// UEN-54: both searches find the same, the five best of every number of ranks, for any costs.
TEST(HierarchySearch, GrowingFindsWhatTryingAllFinds) {
  test::Random random(test::run_seed());
  for (const auto& [name, nodes, ranks] :
       {std::tuple("abci", 32, 128), {"abci", 64, 256}, {"summit", 16, 96}, {"dgx2", 9, 144}, {"kesch", 4, 64}}) {
    const Ranks on(name, nodes, ranks);
    for (int trial = 0; trial < 5; ++trial) {
      HierarchyModel model(on.topology, on.placement, random_costs(random));
      const double bytes = std::exp2(10 + static_cast<double>(random() % 20));
      const auto grown = grow_hierarchies(model, bytes, 5);
      EXPECT_EQ(grown.rbegin()->first, ranks);
      int64_t all = 0;
      for (const auto& [fewer, ranking] : grown) {
        if (fewer == 1) continue;
        const HierarchyRanking every = search_all_hierarchies(model, fewer, bytes, 5);
        EXPECT_EQ(every.best, ranking.best) << name << ", " << fewer << " ranks";
        EXPECT_EQ(every.evaluations, ordered_factorisations(fewer, 1 << 20));
        all += every.evaluations;
      }
      EXPECT_LE(evaluations_of(grown), all);
    }
  }
}

TEST(HierarchySearch, TimesAreThoseOfTheModel) {
  const Ranks on("abci", 16, 64);
  HierarchyModel model(on.topology, on.placement, paper_costs());
  for (const Hierarchy& it : search_all_hierarchies(model, 64, 1e8, 100).best) {
    EXPECT_DOUBLE_EQ(it.seconds, model.seconds(it.factors, 1e8));
  }
}

// At 2,048 ranks growing computes a fifth of the times, for the best five, and a fifteenth for the best.
TEST(HierarchySearch, GrowingComputesFewTimes) {
  const Ranks on("abci", 512, 2048);
  HierarchyModel model(on.topology, on.placement, paper_costs());
  EXPECT_EQ(search_all_hierarchies(model, 2048, 1e8, 1).evaluations, 1024);
  EXPECT_EQ(evaluations_of(grow_hierarchies(model, 1e8, 5)), 211);
  EXPECT_EQ(evaluations_of(grow_hierarchies(model, 1e8, 1)), 66);
}

TEST(HierarchySearch, RefusesRanksAndBytesThatAreNone) {
  const Ranks on("dgx1-v100", 1, 8);
  HierarchyModel model(on.topology, on.placement, paper_costs());
  for (const int ranks : {0, -8, 3, 16}) EXPECT_THROW(search_all_hierarchies(model, ranks, 1e8, 5), Error) << ranks;
  for (const double bytes : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THROW(search_all_hierarchies(model, 8, bytes, 5), Error) << bytes;
    EXPECT_THROW(grow_hierarchies(model, bytes, 5), Error) << bytes;
    EXPECT_THROW(model.layer_times(std::vector{8}, bytes), Error) << bytes;
  }
  EXPECT_EQ(search_all_hierarchies(model, 1, 0, 5).best.size(), 1u);
}

TEST(HierarchySearch, SaysHowOneComesFromAnother) {
  using Factors = std::vector<int>;
  EXPECT_EQ(extension_of(Factors{4, 8}, Factors{4, 8, 2}), Extension::kNewLayer);
  EXPECT_EQ(extension_of(Factors{4, 8}, Factors{4, 16}), Extension::kLargerLast);
  EXPECT_EQ(extension_of(Factors{4, 8, 2}, Factors{4, 16, 2}), Extension::kLargerOther);
  EXPECT_EQ(extension_of(Factors{4, 8}, Factors{8, 8}), Extension::kLargerOther);
  EXPECT_EQ(extension_of(Factors{4, 8}, Factors{8, 4, 2}), Extension::kOther);
  EXPECT_EQ(extension_of(Factors{4, 8}, Factors{8, 4}), Extension::kOther);
  EXPECT_EQ(extension_of(Factors{2, 3}, Factors{3, 3, 2}), Extension::kOther);
}

}  // namespace
}  // namespace plait
