// Which arrows a picture of many queues has.
#include "plan/arrows.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

#include "property/plan_zoo.hpp"

namespace plait {
namespace {

using Crossing = std::tuple<ArrowKind, int, int, int>;  // the last gap, from rank to rank

std::set<Crossing> data_of(const std::vector<Arrow>& arrows) {
  std::set<Crossing> found;
  for (const Arrow& it : arrows) {
    if (it.kind != ArrowKind::kSignal) found.insert({it.kind, it.last_gap, it.from.rank, it.to.rank});
  }
  return found;
}

// The same, where buses are taken apart.
std::set<Crossing> data_of(const FewArrows& few) {
  std::set<Crossing> found = data_of(few.arrows);
  for (const Bus& bus : few.buses) {
    if (bus.kind == ArrowKind::kSignal) continue;
    for (const PictureColumn& from : bus.from) {
      for (const PictureColumn& to : bus.to) {
        if (from.rank != to.rank) found.insert({bus.kind, bus.gap, from.rank, to.rank});
      }
    }
  }
  return found;
}

int signals_in(const std::vector<Arrow>& arrows) {
  int found = 0;
  for (const Arrow& it : arrows) found += it.kind == ArrowKind::kSignal ? 1 : 0;
  return found;
}

TEST(Arrows, ThinnedOutTheyShowTheSameData) {
  std::vector<Plan> plans = test::zoo();
  plans.push_back(test::ring_all_reduce(12));
  plans.push_back(test::push_all_to_all(9, 1));
  plans.push_back(test::two_node_all_reduce(6, 2));
  for (const Plan& plan : plans) {
    SCOPED_TRACE(plan.algorithm);
    const std::vector<Arrow> arrows = arrows_of(plan, lay_out(plan));
    const FewArrows few = thinned_out(arrows);
    EXPECT_EQ(data_of(few), data_of(arrows));
    EXPECT_LE(few.arrows.size(), arrows.size());
  }
}

TEST(Arrows, SignalsThatGoWithDataAreLeftOut) {
  const Plan ring = test::ring_all_reduce(5);
  const std::vector<Arrow> arrows = arrows_of(ring, lay_out(ring));
  EXPECT_EQ(signals_in(arrows), 5 * 8);
  EXPECT_EQ(signals_in(thinned_out(arrows).arrows), 0);
  // A barrier's say all that there is.
  const Plan barrier = test::dissemination_barrier(5);
  const std::vector<Arrow> of_barrier = arrows_of(barrier, lay_out(barrier));
  EXPECT_EQ(signals_in(thinned_out(of_barrier).arrows), signals_in(of_barrier));
}

Arrow stored(int from, int to) { return {ArrowKind::kStored, {from, 0, 0}, 0, {from, 0}, {to, 0}, 1, 1}; }

TEST(Arrows, RanksThatReachTheSameOnesShareABus) {
  std::vector<Arrow> arrows;
  for (int from = 0; from < 12; ++from) {
    for (int to = from / 6 * 6; to < from / 6 * 6 + 6; ++to) {
      if (to != from) arrows.push_back(stored(from, to));
    }
  }
  arrows.push_back(stored(12, 0));
  const FewArrows few = thinned_out(arrows);
  ASSERT_EQ(few.buses.size(), 2u);
  for (int half = 0; half < 2; ++half) {
    EXPECT_EQ(few.buses[half].from.size(), 6u);
    EXPECT_EQ(few.buses[half].from, few.buses[half].to);
    EXPECT_EQ(few.buses[half].from.front().rank, half * 6);
  }
  ASSERT_EQ(few.arrows.size(), 1u);
  EXPECT_EQ(few.arrows[0].from.rank, 12);
}

}  // namespace
}  // namespace plait
