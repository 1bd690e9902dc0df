// Hierarchies whose members reach each other over several paths, on the papers' machines.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/spec.hpp"
#include "base/error.hpp"
#include "model/link_load.hpp"
#include "model/simulator/simulation.hpp"
#include "topology/machines.hpp"
#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

constexpr double kLongMessage = 1 << 28;

// All GPUs of a machine.
struct AllGpusOf {
  Topology topology;
  Placement placement;
  AlgorithmArguments arguments;

  explicit AllGpusOf(const char* name, int nodes = 1, Collective collective = Collective::kAllReduce)
      : topology(machine(name, nodes)),
        placement(place_ranks(topology, devices_of(topology, DeviceKind::kGpu))),
        arguments(arguments_for(topology, placement, collective)) {}

  VerifiedPlan plan(std::string_view algorithm) const { return verify(make_plan(algorithm, arguments)); }

  // By links alone.
  double seconds(std::string_view algorithm) const {
    const VerifiedPlan verified = plan(algorithm);
    Routes routes(topology, placement);
    const SimulatorProgram program = compile(verified.plan(), check_form(verified.plan()), routes);
    const SimulatedMachine simulated(program, topology, Costs{}, FlagPlace::kBehindData, kLongMessage);
    return simulate(program, simulated, kLongMessage, false).seconds;
  }
};

// The ranks that read what others stored in host memory next to them: (owner, reader).
std::vector<std::pair<int, int>> host_readers(const Plan& plan) {
  std::vector<std::pair<int, int>> pairs;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    for (const Queue& queue : plan.ranks[static_cast<size_t>(rank)].queues) {
      for (const Operation& it : queue.operations) {
        for (const Place& source : it.sources) {
          if (source.buffer == Buffer::kHost) pairs.emplace_back(source.rank, rank);
        }
      }
    }
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

using Pairs = std::vector<std::pair<int, int>>;

// TEM-16: over both paths, stages 1 and 3 take less. Stage 2 goes from socket to socket over the same links to the
// CPUs, so that a quarter through the host is about the best on Mist (TEM-09).
TEST(PathsInLevels, StagesOneAndThreeGain) {
  const AllGpusOf mist("mist");
  for (const int parts : {1, 2, 4}) {
    const double one = mist.seconds(join("three_stage(direct: 1, parts=", parts, ")"));
    EXPECT_GT(one / mist.seconds(join("three_stage(direct: 75, host: 25, parts=", parts, ")")), 1.1) << parts;
  }
  EXPECT_EQ(host_readers(mist.plan("three_stage(direct: 1, host: 1)").plan()), (Pairs{{0, 1}, {1, 0}, {2, 3}, {3, 2}}));
}

// TEM-31: two paths beat one also where every member leads, on one node and over several.
TEST(PathsInLevels, EveryMemberLeads) {
  const AllGpusOf mist("mist"), two("mist", 2);
  const char* const one_path = "hierarchical(group: flat(store), all: ring, parts=4)";
  EXPECT_GT(mist.seconds(one_path),
            1.15 * mist.seconds("hierarchical(group: flat, all: ring, direct: 3, host: 1, parts=4)"));
  EXPECT_GT(two.seconds("hierarchical(group: flat(store), node: ring, all: ring, parts=4)"),
            1.15 * two.seconds("hierarchical(group: flat, node: ring, all: ring, direct: 3, host: 1, parts=4)"));
}

// TEM-15: the channel is a choice; PCIe alone is slower than NVLink on Cedar.
TEST(PathsInLevels, OneChannelOrTheOther) {
  const AllGpusOf mist("mist");
  const Plan by_host = mist.plan("three_stage(host: 1, parts=4)").plan();
  EXPECT_EQ(host_readers(by_host).size(), 4u);
  EXPECT_TRUE(host_readers(mist.plan("three_stage(direct: 1, parts=4)").plan()).empty());
  EXPECT_GT(mist.seconds("three_stage(host: 1, parts=4)"), mist.seconds("three_stage(direct: 1, parts=4)"));
}

// TEM-17..19: the flat design, a quarter to every GPU, with several paths between GPUs of one socket only. Data between
// sockets would have to share the link between them.
TEST(PathsInLevels, FlatGoesByTheHostWithinSocketsOnly) {
  const AllGpusOf cedar("cedar");
  const Plan plan = cedar.plan("hierarchical(all: flat(store), direct: 3, host: 1, parts=4)").plan();
  EXPECT_EQ(host_readers(plan), (Pairs{{0, 1}, {1, 0}, {2, 3}, {3, 2}}));
  AllGpusOf everywhere("cedar");
  for (RankPath& it : *everywhere.arguments.paths) it.across_sockets = false;
  const char* const flat = "hierarchical(all: flat(store), direct: 3, host: 1, parts=4)";
  EXPECT_EQ(host_readers(everywhere.plan(flat).plan()).size(), 12u);
  EXPECT_GT(everywhere.seconds(flat), cedar.seconds(flat));
}

// TEM-21, TEM-22, TEM-59: both designs over several nodes, in parts and not.
TEST(PathsInLevels, OverSeveralNodes) {
  for (const int nodes : {2, 3, 4}) {
    const AllGpusOf mist("mist", nodes), cedar("cedar", nodes);
    const auto gain = [](const AllGpusOf& on, std::string_view levels) {
      return on.seconds(join("hierarchical(", levels, ")")) / on.seconds(join("hierarchical(", levels, ", parts=4)"));
    };
    for (const char* shares : {"", ", direct: 3, host: 2"}) {
      EXPECT_GT(gain(mist, join("group: flat(leaders=1), node: ring, all: ring", shares)), 1) << nodes << shares;
      EXPECT_GT(gain(cedar, join("node: flat, all: ring", shares)), 1) << nodes << shares;
    }
  }
}

// Where nothing is known of paths, ranks of a group go by the host.
TEST(PathsInLevels, UnknownPaths) {
  AlgorithmArguments arguments;
  arguments.ranks = 6;
  arguments.groups = {{0, 1, 2}, {3, 4, 5}};
  const Plan plan = verify(make_plan("three_stage(direct: 2, host: 1, parts=2)", arguments)).plan();
  EXPECT_EQ(host_readers(plan), (Pairs{{0, 1}, {0, 2}, {1, 0}, {2, 0}, {3, 4}, {3, 5}, {4, 3}, {5, 3}}));
}

TEST(PathsInLevels, RefusesWhatCannotBe) {
  const AllGpusOf mist("mist"), pcie("pcie-4"), broadcast("mist", 1, Collective::kBroadcast);
  const auto expect = [](const AllGpusOf& on, const char* text, const char* part) {
    test::expect_invalid([&] { make_plan(text, on.arguments); }, part);
  };
  expect(pcie, "three_stage(direct: 1, host: 1)", "no two ranks of a socket have a path through host memory");
  expect(mist, "three_stage(direct: 1, relay: 1)", "relays nothing");
  expect(mist, "three_stage(direct: 1, host: 1, zero_copy)", "zero-copy");
  expect(mist, "hierarchical(group: flat(load), all: ring, direct: 1, host: 1)", "is by load");
  expect(broadcast, "hierarchical(group: chain, all: binomial, direct: 1, host: 1)", "in an all_reduce only");
}

}  // namespace
}  // namespace plait
