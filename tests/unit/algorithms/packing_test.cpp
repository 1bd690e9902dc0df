// Rings, trees and ways on random links of unequal speed, beside bounds over all partitions and cuts (BLK-21).
#include "algorithms/steps/packing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/steps/hamilton_rings.hpp"
#include "algorithms/steps/max_flow.hpp"
#include "algorithms/steps/spanning_trees.hpp"
#include "support/algorithm_plans.hpp"
#include "support/graph_bounds.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using Arcs = std::map<std::pair<int, int>, double>;  // GB/s

// A tree, so that all are joined, and some more links.
std::vector<DeviceLink> random_graph(test::Random& random, int ranks) {
  std::map<std::pair<int, int>, double> gbps;
  const auto join = [&](int a, int b) {
    gbps[std::minmax(a, b)] = static_cast<double>(test::between(random, 1, 8)) * 5;
  };
  for (int b = 1; b < ranks; ++b) join(static_cast<int>(test::between(random, 0, static_cast<size_t>(b) - 1)), b);
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      if (test::one_in(random, 2)) join(a, b);
    }
  }
  std::vector<DeviceLink> links;
  for (const auto& [pair, speed] : gbps) links.push_back({pair.first, pair.second, speed});
  return links;
}

void expect_within(const Arcs& used, const std::vector<DeviceLink>& links) {
  Arcs left;
  for (const DeviceLink& it : links) left[{it.a, it.b}] = left[{it.b, it.a}] = it.gbps;
  for (const auto& [arc, gbps] : used) EXPECT_LE(gbps, left[arc] * 1.001) << arc.first << " to " << arc.second;
}

// Every rank is in the tree once.
void add(Arcs& arcs, const Tree& tree, double gbps, bool both_ways) {
  std::vector<int> order = tree.order;
  std::sort(order.begin(), order.end());
  for (size_t rank = 0; rank < tree.parent.size(); ++rank) EXPECT_EQ(order.at(rank), static_cast<int>(rank));
  for (const int rank : tree.order) {
    if (tree.parent[rank] < 0) continue;
    arcs[{tree.parent[rank], rank}] += gbps;
    if (both_ways) arcs[{rank, tree.parent[rank]}] += gbps;
  }
}

void expect_near_bound(double gbps, Collective collective, int root, int ranks, const std::vector<DeviceLink>& links,
                       double least) {
  const double bound = test::link_bound(collective, root, ranks, links);
  EXPECT_LE(gbps, bound * 1.001) << name(collective);
  EXPECT_GE(gbps, bound * least) << name(collective);
}

void check_trees(int root, int ranks, const std::vector<DeviceLink>& links) {
  const Packing<Tree> both = pack_spanning_trees(ranks, links, 0), down = pack_trees_from(root, ranks, links, 0),
                      all = pack_trees_from_all(ranks, links, 0);
  Arcs of_both, of_down, of_all;
  for (const Tree& it : both.shapes) add(of_both, it, both.gbps_each, true);
  for (const Tree& it : down.shapes) add(of_down, it, down.gbps_each, false);
  for (const Tree& it : all.shapes) add(of_all, it, all.gbps_each, false);
  for (const Tree& it : down.shapes) EXPECT_EQ(it.root(), root);
  for (const Arcs& arcs : {of_both, of_down, of_all}) expect_within(arcs, links);
  // Shares are equal, and few where every rank is a root.
  expect_near_bound(both.gbps(), Collective::kAllReduce, 0, ranks, links, 0.9);
  expect_near_bound(down.gbps(), Collective::kBroadcast, root, ranks, links, 0.9);
  expect_near_bound(all.gbps(), Collective::kAllGather, 0, ranks, links, 0.7);
}

void check_ways(int root, int ranks, const std::vector<DeviceLink>& links) {
  const Packing<std::vector<int>> ways = pack_ways_to(root, ranks, links, 0);
  Arcs arcs;
  for (const auto& way : ways.shapes) {
    EXPECT_EQ(way.back(), root);
    for (size_t i = 1; i < way.size(); ++i) arcs[{way[i - 1], way[i]}] += ways.gbps_each;
  }
  expect_within(arcs, links);
  // The message has the root's block as well.
  expect_near_bound(ways.gbps() * ranks / (ranks - 1), Collective::kGather, root, ranks, links, 0.9);
}

void check_rings(int ranks, const std::vector<DeviceLink>& links) {
  const Packing<std::vector<int>> rings = pack_rings(ranks, links, 0);
  Arcs arcs;
  for (const auto& ring : rings.shapes) {
    std::vector<int> order = ring;
    std::sort(order.begin(), order.end());
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(order.at(rank), rank);
    for (int i = 0; i < ranks; ++i) arcs[{ring[i], ring[(i + 1) % ranks]}] += rings.gbps_each;
  }
  expect_within(arcs, links);
}

TEST(Packing, FillsRandomLinksAndNoMore) {
  const uint64_t seed = test::run_seed();
  test::Random random(seed);
  for (int i = 0; i < 150; ++i) {
    const int ranks = static_cast<int>(test::between(random, 2, 7)), root = i % ranks;
    const std::vector<DeviceLink> links = random_graph(random, ranks);
    std::string text = "seed " + std::to_string(seed) + ":";
    for (const DeviceLink& it : links) text += join(" ", it.a, "-", it.b, " ", it.gbps);
    SCOPED_TRACE(text);
    check_trees(root, ranks, links);
    check_ways(root, ranks, links);
    check_rings(ranks, links);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Packing, GivesAsManyAsAreWanted) {
  const std::vector<DeviceLink> links = test::links_of_all(4);
  for (const int count : {1, 2, 3, 5}) {
    EXPECT_EQ(pack_spanning_trees(4, links, count).shapes.size(), static_cast<size_t>(count));
    EXPECT_EQ(pack_trees_from(1, 4, links, count).shapes.size(), static_cast<size_t>(count));
    EXPECT_EQ(pack_trees_from_all(4, links, count).shapes.size(), static_cast<size_t>(count) * 4);
    EXPECT_EQ(pack_ways_to(1, 4, links, count).shapes.size(), static_cast<size_t>(count) * 3);
  }
  EXPECT_EQ(pack_rings(4, links, 1).shapes.size(), 2u);  // both ways round
  EXPECT_EQ(pack_rings(4, links, 5).shapes.size(), 4u);
}

}  // namespace
}  // namespace plait
