// Compares what papers say of rings and trees on their machines with what the algorithms find there.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/spec.hpp"
#include "base/error.hpp"
#include "model/link_load.hpp"
#include "support/seed.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

// Plans on some GPUs of a machine.
struct OnGpus {
  Topology topology;
  Placement placement;
  AlgorithmArguments arguments;

  OnGpus(const char* name, std::vector<int> gpus, Collective collective, int nodes = 1)
      : topology(machine(name, nodes)) {
    const std::vector<int> devices = devices_of(topology, DeviceKind::kGpu);
    for (int& gpu : gpus) gpu = devices[gpu];
    placement = place_ranks(topology, gpus.empty() ? devices : gpus);
    arguments = arguments_for(topology, placement, collective);
  }

  LinkLoad load(std::string_view algorithm) const {
    return link_load(verify(make_plan(algorithm, arguments)), topology, placement);
  }
  // The load of each link between GPUs, in each direction that carries any.
  std::vector<double> loads(const LinkLoad& load) const {
    std::vector<double> all;
    for (size_t i = 0; i < topology.links.size(); ++i) {
      if (!joins_gpus(topology.links[i].kind)) continue;
      for (const double bytes : load.bytes[i]) {
        if (bytes > 0) all.push_back(bytes);
      }
    }
    return all;
  }
  // GB of the message a second, where links are all that costs time.
  double gbps(std::string_view algorithm) const { return 1e-9 / load(algorithm).busiest_seconds; }
};

void expect_all_near(const std::vector<double>& values, size_t count, double expected) {
  EXPECT_EQ(values.size(), count);
  for (const double value : values) EXPECT_NEAR(value, expected, 1e-12);
}

bool serves_by_name(std::string_view algorithm, Collective collective) {
  return std::any_of(algorithms().begin(), algorithms().end(),
                     [&](const Algorithm& it) { return it.name == algorithm && serves(it, collective); });
}

constexpr double kAbciLink = 50;
const std::vector<int> kAll = {};

// NVG-08, UEN-11, UEN-22: six ring orders use every link of four fully connected GPUs twice each way.
TEST(RingsOnMachines, SixOfThemFillAbcisNode) {
  const OnGpus abci("abci", kAll, Collective::kAllReduce);
  // Each ring has a sixth of the message, and moves 2 (p - 1) / p of it over each of its links.
  expect_all_near(abci.loads(abci.load("rings")), 12, 2 * (2.0 * 3 / 4) / 6);
  // A ring over the nodes that is cut open here would get 12 times what one of the node's NICs has.
  EXPECT_NEAR(abci.gbps("rings"), 12 * 12.5 / (2.0 * 3 / 4), 1e-9);
  // Two rings, which is one ring both ways round: four of six links, at full rate (D-BLK-06).
  expect_all_near(abci.loads(abci.load("rings(count=2)")), 8, (2.0 * 3 / 4) / 2);
  EXPECT_NEAR(abci.gbps("rings(count=2)"), 2 * kAbciLink / (2.0 * 3 / 4), 1e-9);
}

// BLK-02: n/(2 b), and two of six links idle. BLK-03: n/(3 b), each of nine arcs used once.
TEST(RingsOnMachines, TwoOfThemBroadcastAtTwoThirdsOfThreeTrees) {
  const OnGpus abci("abci", kAll, Collective::kBroadcast);
  expect_all_near(abci.loads(abci.load("rings(count=2)")), 6, 1.0 / 2);
  EXPECT_NEAR(abci.gbps("rings(count=2)"), 2 * kAbciLink, 1e-9);
  expect_all_near(abci.loads(abci.load("spanning_trees")), 9, 1.0 / 3);
  EXPECT_NEAR(abci.gbps("spanning_trees"), 3 * kAbciLink, 1e-9);
}

// BLK-11 and C-BLK-06: one ring over 6 of the machine's 16 links, and no room for another one.
TEST(RingsOnMachines, SixGpusOfAP100DgxHaveOne) {
  const std::vector<int> gpus = {0, 1, 2, 3, 4, 5};
  const OnGpus six("dgx1-p100", gpus, Collective::kAllReduce);
  EXPECT_EQ(six.arguments.links.size(), 9u);
  EXPECT_EQ(make_plan("rings", six.arguments).ranks[0].queues.size(), 2u);  // one ring, both ways round
  expect_all_near(six.loads(six.load("rings")), 2 * 6, (2.0 * 5 / 6) / 2);
  // BLK_ideal_model of the paper's data: 1.5 trees at once, 1.25 times as fast.
  EXPECT_NEAR(six.gbps("spanning_trees") / six.gbps("rings"), 1.25, 1e-9);
}

// BLK-11: eight GPUs have two rings over all 16 links, and trees are no faster.
TEST(RingsOnMachines, EightGpusOfAP100DgxHaveTwo) {
  const OnGpus dgx("dgx1-p100", kAll, Collective::kAllReduce);
  expect_all_near(dgx.loads(dgx.load("rings")), 2 * 16, (2.0 * 7 / 8) / 4);
  EXPECT_NEAR(dgx.gbps("spanning_trees"), dgx.gbps("rings"), 1e-9);
  EXPECT_NEAR(dgx.gbps("rings"), 20 * 16.0 / 7, 1e-9);
}

TEST(RingsOnMachines, SevenRingsBothWaysFillMi300x) {
  const OnGpus mi300x("mi300x-8", kAll, Collective::kAllReduce);
  EXPECT_NEAR(mi300x.gbps("rings"), 7 * 64 / (2.0 * 7 / 8), 1e-9);
  EXPECT_EQ(mi300x.loads(mi300x.load("rings")).size(), 2u * 28);
}

// Two ranks are a ring, there and back.
TEST(RingsOnMachines, TwoGpusShareTheirLink) {
  const OnGpus two("dgx1-v100", {0, 3}, Collective::kAllReduce);
  expect_all_near(two.loads(two.load("rings")), 2, 2 * (1.0 / 2));
}

TEST(RingsOnMachines, SayWhereThereIsNone) {
  const OnGpus five("dgx1-p100", {0, 1, 2, 3, 4}, Collective::kAllReduce);  // GPU 4 has one link (D-BLK-02)
  try {
    make_plan("rings", five.arguments);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no ring leads along the 7 links that join the 5 ranks"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NEAR(five.gbps("spanning_trees"), 20, 1e-9);
}

// BLK-12, BLK-14, BLK-15: n/(2 b) for eight GPUs, two groups of four, and 12.5% behind two rings.
TEST(TwoPhases, OfEightGpusOfAP100Dgx) {
  const OnGpus dgx("dgx1-p100", kAll, Collective::kAllReduce);
  ASSERT_EQ(dgx.arguments.groups.size(), 2u);
  EXPECT_NEAR(dgx.gbps("two_phase"), 2 * 20, 1e-9);
  EXPECT_NEAR(dgx.gbps("two_phase") / dgx.gbps("rings"), 1 - 0.125, 1e-9);
  EXPECT_EQ(verify(make_plan("two_phase(store, parts=4)", dgx.arguments)).report().steps, 3);
}

// BLK-13, BLK-23: groups of four and two, whose two links to each other have half of the message each.
TEST(TwoPhases, OfSixGpusOfAP100Dgx) {
  const OnGpus six("dgx1-p100", {0, 1, 2, 3, 4, 5}, Collective::kAllReduce);
  EXPECT_EQ(make_plan("two_phase", six.arguments).chunk_count(), 2);
  EXPECT_NEAR(six.gbps("two_phase"), 20, 1e-9);  // r0 and r1 give each other half up and half down
}

// Whatever the machine, what these algorithms try there is right.
TEST(OnLinks, PlansOfEveryMachineAreProved) {
  std::set<std::string> tried;
  const std::vector<int> node_counts = test::kSanitized ? std::vector{1} : std::vector{1, 2};
  for (const std::string& name : machine_names()) {
    for (const int nodes : node_counts) {
      if (devices_of(machine(name), DeviceKind::kGpu).size() * static_cast<size_t>(nodes) > kMostLinkedRanks) continue;
      for (int c = 0; c < kCollectiveCount; ++c) {
        const Topology topology = machine(name, nodes);
        const std::vector<int> gpus = devices_of(topology, DeviceKind::kGpu);
        if (gpus.empty()) continue;
        const Placement placement = place_ranks(topology, gpus);
        const AlgorithmArguments here = arguments_for(topology, placement, static_cast<Collective>(c));
        for (const char* algorithm : {"rings", "spanning_trees", "max_flow", "two_phase"}) {
          if (!serves_by_name(algorithm, here.collective)) continue;
          for (const AlgorithmArguments& it : find_algorithm(algorithm, here.collective).candidates(here)) {
            EXPECT_FALSE(here.links.empty()) << name;
            EXPECT_NO_THROW(verify(find_algorithm(algorithm, here.collective).make(it))) << name << " " << algorithm;
            tried.insert(name);
          }
        }
      }
    }
  }
  EXPECT_GE(tried.size(), 8u);
}

// BLK-22: two DGX-1 joined by NICs. The trees fill what joins the nodes.
TEST(TreesOnMachines, FillTheNicsBetweenTwoDgx) {
  const OnGpus two("dgx1-p100", kAll, Collective::kBroadcast, 2);
  EXPECT_NEAR(two.gbps("spanning_trees"), 4 * 12.5, 0.5);
  EXPECT_NEAR(two.gbps("rings"), 4 * 12.5, 0.5);
}

// BLK-21: links of unequal speed.
TEST(TreesOnMachines, ShareUnequalLinks) {
  const OnGpus summit("summit", kAll, Collective::kBroadcast);
  EXPECT_NEAR(summit.gbps("spanning_trees"), 64, 1e-9);  // the X-bus
}

}  // namespace
}  // namespace plait
