// Rates of flows: textbook cases, and random flows that come and go against rates that are found anew each time.
#include "model/simulator/fluid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "support/random_flows.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using test::Arrival;
using test::between;
using test::FlowNetwork;
using test::one_in;
using test::Random;

std::vector<FluidNetwork::Ended> end_next(FluidNetwork& network) {
  std::vector<FluidNetwork::Ended> ended;
  network.end_due(ended);
  return ended;
}

TEST(FluidNetwork, AFlowAloneHasItsNarrowestLink) {
  FluidNetwork network;
  const uint32_t wide = network.add_resource(100), narrow = network.add_resource(10);
  const uint32_t route = network.add_route({{wide}, {narrow}});
  EXPECT_EQ(network.alone(route), 10);
  network.start(route, 50, 7, 1);
  EXPECT_DOUBLE_EQ(network.next_end(), 6);
  const auto ended = end_next(network);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].owner, 7u);
  EXPECT_EQ(ended[0].route, route);
  EXPECT_EQ(ended[0].bottleneck, FluidNetwork::kNone);  // nobody held it back
  EXPECT_EQ(network.next_end(), FluidNetwork::kNever);
  EXPECT_DOUBLE_EQ(network.busy_seconds(wide), 5);
}

TEST(FluidNetwork, EqualFlowsShareALinkAndTheFirstToEndLeavesItsShare) {
  FluidNetwork network;
  const uint32_t link = network.add_resource(10);
  const uint32_t one = network.add_route({{link}}), other = network.add_route({{link}});
  network.start(one, 10, 0, 0);
  network.start(other, 30, 1, 0);
  EXPECT_DOUBLE_EQ(network.next_end(), 2);  // 5 a second each
  EXPECT_EQ(end_next(network).front().bottleneck, link);
  EXPECT_DOUBLE_EQ(network.next_end(), 4);  // 10 are done; 20 more at 10 a second
  EXPECT_EQ(end_next(network).front().owner, 1u);
  EXPECT_DOUBLE_EQ(network.busy_seconds(link), 4);
}

TEST(FluidNetwork, FlowsOfOneRouteCountOneByOne) {
  FluidNetwork network;
  const uint32_t link = network.add_resource(12);
  const uint32_t crowded = network.add_route({{link}}), single = network.add_route({{link}});
  network.start(crowded, 100, 0, 0);
  network.start(crowded, 100, 1, 0);
  network.start(single, 100, 2, 0);
  network.next_end();
  EXPECT_DOUBLE_EQ(network.rate(crowded), 4);
  EXPECT_DOUBLE_EQ(network.rate(single), 4);
}

// Bertsekas and Gallager's shape: a long flow over two links, of which each carries others.
TEST(FluidNetwork, WhoCannotUseItsShareLeavesItToOthers) {
  FluidNetwork network;
  const uint32_t narrow = network.add_resource(6), wide = network.add_resource(20);
  const uint32_t both = network.add_route({{narrow}, {wide}}), first = network.add_route({{narrow}}),
                 second = network.add_route({{wide}});
  network.start(both, 1000, 0, 0);
  network.start(first, 1000, 1, 0);
  network.start(second, 1000, 2, 0);
  network.next_end();
  EXPECT_DOUBLE_EQ(network.rate(both), 3);
  EXPECT_DOUBLE_EQ(network.rate(first), 3);
  EXPECT_DOUBLE_EQ(network.rate(second), 17);
}

TEST(FluidNetwork, ACeilingBelowTheShareLeavesTheRest) {
  FluidNetwork network;
  const uint32_t link = network.add_resource(10);
  const uint32_t slow = network.add_route({{link}}, 2), fast = network.add_route({{link}});
  network.start(slow, 100, 0, 0);
  network.start(fast, 100, 1, 0);
  network.next_end();
  EXPECT_DOUBLE_EQ(network.rate(slow), 2);
  EXPECT_DOUBLE_EQ(network.rate(fast), 8);
}

TEST(FluidNetwork, ParallelLinksCarryAPartEach) {
  FluidNetwork network;
  const uint32_t left = network.add_resource(10), right = network.add_resource(10);
  const uint32_t over_both = network.add_route({{left, 0.5}, {right, 0.5}}), over_left = network.add_route({{left}});
  network.start(over_both, 400, 0, 0);
  EXPECT_DOUBLE_EQ(network.next_end(), 20);  // twice the bandwidth of one
  network.start(over_left, 100, 1, 10);
  network.next_end();
  EXPECT_DOUBLE_EQ(network.rate(over_both), 10 / 1.5);  // all rates rise together until `left` is full
  EXPECT_DOUBLE_EQ(network.rate(over_left), 10 / 1.5);
}

TEST(FluidNetwork, WatchersSeeEveryStretchInWhichALinkIsBusy) {
  FluidNetwork network;
  const uint32_t link = network.add_resource(10);
  const uint32_t route = network.add_route({{link}});
  std::vector<std::pair<double, double>> seen;
  network.watch([&](uint32_t, double from, double to) { seen.emplace_back(from, to); });
  network.start(route, 10, 0, 0);
  network.next_end();
  network.start(route, 10, 0, 0.5);
  while (network.next_end() < FluidNetwork::kNever) end_next(network);
  network.start(route, 10, 0, 5);
  network.next_end();
  end_next(network);
  EXPECT_EQ(seen, (std::vector<std::pair<double, double>>{{0, 2}, {5, 6}}));
}

// ---- Random flows ----

struct Flow {
  uint32_t route = 0, owner = 0;
  double left = 0, rate = 0;
};

// Max-min fair rates by their definition: all rise together, and a flow stops where it cannot rise.
void find_rates(const FlowNetwork& network, std::vector<Flow>& flows) {
  std::vector<double> left = network.capacities;
  std::vector<bool> rises(flows.size(), true);
  for (Flow& flow : flows) flow.rate = 0;
  for (bool any = !flows.empty(); any;) {
    std::vector<double> weight(left.size(), 0);
    double step = FluidNetwork::kNever;
    for (size_t i = 0; i < flows.size(); ++i) {
      if (!rises[i]) continue;
      for (const auto& use : network.routes[flows[i].route].uses) weight[use.resource] += use.share;
      step = std::min(step, network.routes[flows[i].route].ceiling - flows[i].rate);
    }
    for (size_t r = 0; r < left.size(); ++r) {
      if (weight[r] > 0) step = std::min(step, left[r] / weight[r]);
    }
    for (size_t r = 0; r < left.size(); ++r) left[r] = std::max(0.0, left[r] - step * weight[r]);
    any = false;
    for (size_t i = 0; i < flows.size(); ++i) {
      if (!rises[i]) continue;
      flows[i].rate += step;
      rises[i] = flows[i].rate < network.routes[flows[i].route].ceiling * (1 - 1e-12);
      for (const auto& use : network.routes[flows[i].route].uses) {
        if (left[use.resource] <= network.capacities[use.resource] * 1e-12) rises[i] = false;
      }
      any |= rises[i];
    }
  }
}

// Ends of all flows, from one change to the next, with all rates found anew at each.
std::vector<double> ends_by_definition(const FlowNetwork& network, const std::vector<Arrival>& arrivals) {
  std::vector<double> ends(arrivals.size());
  std::vector<Flow> flows;
  double now = 0;
  for (size_t next = 0; next < arrivals.size() || !flows.empty();) {
    find_rates(network, flows);
    double until = next < arrivals.size() ? arrivals[next].time : FluidNetwork::kNever;
    for (const Flow& flow : flows) until = std::min(until, now + flow.left / flow.rate);
    for (Flow& flow : flows) flow.left -= flow.rate * (until - now);
    now = until;
    std::erase_if(flows, [&](const Flow& flow) {
      const bool is_over = flow.left <= 1e-9 * arrivals[flow.owner].bytes;
      if (is_over) ends[flow.owner] = now;
      return is_over;
    });
    for (; next < arrivals.size() && arrivals[next].time <= now; ++next) {
      flows.push_back({arrivals[next].route, static_cast<uint32_t>(next), arrivals[next].bytes, 0});
    }
  }
  return ends;
}

TEST(FluidNetwork, RandomFlowsEndWhenMaxMinFairnessSays) {
  Random random(test::run_seed());
  for (int i = 0; i < 2000; ++i) {
    const FlowNetwork network = test::random_network(random);
    const std::vector<Arrival> arrivals = test::random_arrivals(random, network);
    const std::vector<double> expected = ends_by_definition(network, arrivals);
    const std::vector<double> found = test::simulated_ends(network, arrivals);
    for (size_t flow = 0; flow < arrivals.size(); ++flow) {
      ASSERT_NEAR(found[flow], expected[flow], 1e-7 * (1 + expected[flow])) << "network " << i << ", flow " << flow;
    }
  }
}

TEST(DueHeap, GivesTheEarliestWhateverIsMovedAndRemoved) {
  Random random(test::run_seed());
  DueHeap heap;
  heap.resize(20);
  std::map<uint32_t, double> due;
  for (int i = 0; i < 20000; ++i) {
    const auto thing = static_cast<uint32_t>(between(random, 0, 19));
    if (one_in(random, 3)) {
      heap.remove(thing);
      due.erase(thing);
    } else {
      const auto time = static_cast<double>(between(random, 0, 9));
      heap.set(thing, time);
      due[thing] = time;
    }
    ASSERT_EQ(heap.empty(), due.empty());
    if (due.empty()) continue;
    const auto sooner = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto first = std::min_element(due.begin(), due.end(), sooner);  // of equal times the lowest number
    ASSERT_EQ(heap.first_time(), first->second);
    ASSERT_EQ(heap.first(), first->first);
  }
}

}  // namespace
}  // namespace plait
