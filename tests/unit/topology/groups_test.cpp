#include "topology/groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "topology/describe.hpp"
#include "topology/machines.hpp"
#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

std::string groups_of(const Topology& topology, GroupRule rule) {
  return to_text(topology, find_groups(topology, rule));
}

std::string groups_of(const Topology& topology, const std::vector<std::string>& names,
                      GroupRule rule = GroupRule::kGpuOnly) {
  std::vector<int> gpus;
  for (const std::string& name : names) gpus.push_back(device_named(topology, name));
  return to_text(topology, find_groups(topology, gpus, rule));
}

// NVG-34 and TEM: NVLink joins the CPUs of the POWER machines to their GPUs.
TEST(Groups, TakeTheCpuInWhereNvlinkJoinsIt) {
  EXPECT_EQ(groups_of(machine("summit"), GroupRule::kNvGroup),
            "group 0: gpu0 gpu1 gpu2 cpu0\ngroup 1: gpu3 gpu4 gpu5 cpu1\n");
  EXPECT_EQ(groups_of(machine("lassen"), GroupRule::kNvGroup), "group 0: gpu0 gpu1 cpu0\ngroup 1: gpu2 gpu3 cpu1\n");
  EXPECT_EQ(groups_of(machine("mist"), GroupRule::kNvGroup), "group 0: gpu0 gpu1 cpu0\ngroup 1: gpu2 gpu3 cpu1\n");
  EXPECT_EQ(groups_of(machine("summit"), GroupRule::kGpuOnly), "group 0: gpu0 gpu1 gpu2\ngroup 1: gpu3 gpu4 gpu5\n");
}

TEST(Groups, OfFullyConnectedMachinesAreOne) {
  for (const char* name : {"tsubame3", "cedar", "abci"}) {
    EXPECT_EQ(groups_of(machine(name), GroupRule::kNvGroup), "group 0: gpu0 gpu1 gpu2 gpu3\n") << name;
  }
}

TEST(Groups, OfSwitchedMachinesAreOneAcrossSockets) {
  const auto groups = find_groups(machine("dgx2"), GroupRule::kNvGroup);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].gpus.size(), 16u);
  EXPECT_EQ(groups[0].cpu, -1);
  EXPECT_EQ(find_groups(machine("hgx-h200-4"), GroupRule::kNvGroup).size(), 1u);
  EXPECT_EQ(find_groups(machine("hgx-h200-8"), GroupRule::kNvGroup)[0].gpus.size(), 8u);
}

TEST(Groups, OfDgxOneAreItsHalves) {
  for (const char* name : {"dgx1-p100", "dgx1-v100"}) {
    for (const GroupRule rule : {GroupRule::kNvGroup, GroupRule::kGpuOnly}) {
      EXPECT_EQ(groups_of(machine(name), rule), "group 0: gpu0 gpu1 gpu2 gpu3\ngroup 1: gpu4 gpu5 gpu6 gpu7\n");
    }
  }
}

TEST(Groups, OfBridgesArePairsAndOfPcieSingles) {
  EXPECT_EQ(groups_of(machine("nvlink-pairs"), GroupRule::kNvGroup), "group 0: gpu0 gpu1\ngroup 1: gpu2 gpu3\n");
  EXPECT_EQ(groups_of(machine("pcie-4"), GroupRule::kNvGroup),
            "group 0: gpu0\ngroup 1: gpu1\ngroup 2: gpu2\ngroup 3: gpu3\n");
  EXPECT_EQ(find_groups(machine("kesch"), GroupRule::kNvGroup).size(), 16u);
}

TEST(Groups, SpanNodesOnlyWhereAnNvswitchOfNoNodeJoinsThem) {
  const Topology rack = machine("gb200-nvl72");
  const auto groups = find_groups(rack, GroupRule::kNvGroup);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].gpus, devices_of(rack, DeviceKind::kGpu));
  EXPECT_EQ(groups[0].cpu, -1);
  EXPECT_EQ(groups_of(rack, {"n0.gpu1", "n17.gpu2"}), "group 0: n0.gpu1 n17.gpu2\n");
}

TEST(Groups, NeverSpanNodes) {
  const Topology cluster = machine("dgx2", 3);
  const auto groups = find_groups(cluster, GroupRule::kNvGroup);
  ASSERT_EQ(groups.size(), 3u);
  for (int node = 0; node < 3; ++node) {
    EXPECT_EQ(groups[static_cast<size_t>(node)].gpus, devices_of(cluster, DeviceKind::kGpu, node));
  }
  const Topology summit = machine("summit", 2);
  expect_contains(groups_of(summit, GroupRule::kNvGroup), "group 2: n1.gpu0 n1.gpu1 n1.gpu2 n1.cpu0\n");
}

TEST(Groups, PreferFewerThenWiderThenLower) {
  const Topology v100 = machine("dgx1-v100"), p100 = machine("dgx1-p100");
  // In the square 0-1-5-4 there are two pairs either way, but the cross links of the V100 machine are twice as wide.
  EXPECT_EQ(groups_of(v100, {"gpu0", "gpu1", "gpu4", "gpu5"}), "group 0: gpu0 gpu4\ngroup 1: gpu1 gpu5\n");
  EXPECT_EQ(groups_of(p100, {"gpu0", "gpu1", "gpu4", "gpu5"}), "group 0: gpu0 gpu1\ngroup 1: gpu4 gpu5\n");
  // A triangle and one more, or two pairs: both are two groups.
  EXPECT_EQ(groups_of(p100, {"gpu0", "gpu1", "gpu2", "gpu4"}), "group 0: gpu0 gpu1 gpu2\ngroup 1: gpu4\n");
  EXPECT_EQ(groups_of(v100, {"gpu0", "gpu1", "gpu2", "gpu4"}), "group 0: gpu0 gpu1 gpu2\ngroup 1: gpu4\n");
  // BLK-13: a part of a clique is a clique.
  EXPECT_EQ(groups_of(v100, {"gpu0", "gpu1", "gpu2", "gpu4", "gpu5", "gpu7"}),
            "group 0: gpu0 gpu1 gpu2\ngroup 1: gpu4 gpu5 gpu7\n");
  // The order in which GPUs are listed does not matter.
  EXPECT_EQ(groups_of(p100, {"gpu5", "gpu4", "gpu1", "gpu0"}), groups_of(p100, {"gpu0", "gpu1", "gpu4", "gpu5"}));
}

TEST(Groups, OfAPartOfSummitKeepTheirCpus) {
  EXPECT_EQ(groups_of(machine("summit"), {"gpu1", "gpu2", "gpu5"}, GroupRule::kNvGroup),
            "group 0: gpu1 gpu2 cpu0\ngroup 1: gpu5 cpu1\n");
}

TEST(Groups, RefuseWhatIsNotAGpu) {
  const Topology summit = machine("summit");
  EXPECT_THROW(find_groups(summit, {0}, GroupRule::kGpuOnly), Error);
  EXPECT_THROW(find_groups(summit, {99}, GroupRule::kGpuOnly), Error);
  const int gpu = device_named(summit, "gpu3");
  expect_contains(error_of([&] { find_groups(summit, {gpu, gpu}, GroupRule::kGpuOnly); }, ErrorCode::kInvalidArgument),
                  "gpu3 is listed twice");
  EXPECT_TRUE(find_groups(summit, {}, GroupRule::kGpuOnly).empty());
}

bool joined(const Topology& topology, int a, int b) {
  return std::any_of(topology.links.begin(), topology.links.end(), [&](const Link& link) {
    return link.kind == LinkKind::kNvlink && ((link.a == a && link.b == b) || (link.a == b && link.b == a));
  });
}

// Checks that every GPU is in exactly one group, and every pair of a group is joined.
void expect_partition(const Topology& topology, std::vector<int> gpus, const std::vector<Group>& groups) {
  std::vector<int> seen;
  for (const Group& group : groups) {
    ASSERT_FALSE(group.gpus.empty());
    EXPECT_TRUE(std::is_sorted(group.gpus.begin(), group.gpus.end()));
    seen.insert(seen.end(), group.gpus.begin(), group.gpus.end());
    for (const int a : group.gpus) {
      for (const int b : group.gpus) {
        if (a < b) {
          EXPECT_TRUE(joined(topology, a, b)) << a << " " << b;
        }
      }
    }
  }
  std::sort(seen.begin(), seen.end());
  std::sort(gpus.begin(), gpus.end());
  EXPECT_EQ(seen, gpus);
}

// Finds the fewest cliques by trying every assignment, one GPU after the other.
size_t fewest_groups(const Topology& topology, const std::vector<int>& gpus, size_t next,
                     std::vector<std::vector<int>>& groups) {
  if (next == gpus.size()) return groups.size();
  size_t best = gpus.size();
  for (size_t i = 0; i <= groups.size(); ++i) {
    if (i == groups.size()) groups.emplace_back();
    const bool fits =
        std::all_of(groups[i].begin(), groups[i].end(), [&](int g) { return joined(topology, g, gpus[next]); });
    if (fits) {
      groups[i].push_back(gpus[next]);
      best = std::min(best, fewest_groups(topology, gpus, next + 1, groups));
      groups[i].pop_back();
    }
    if (groups[i].empty()) {
      groups.pop_back();
      break;
    }
  }
  return best;
}

// BLK-08: every subset of both DGX-1.
TEST(Groups, OfEverySubsetOfDgxOneAreCliquesAndAsFewAsPossible) {
  for (const char* name : {"dgx1-p100", "dgx1-v100"}) {
    const Topology topology = machine(name);
    const std::vector<int> all = devices_of(topology, DeviceKind::kGpu);
    for (unsigned subset = 1; subset < 256; ++subset) {
      std::vector<int> gpus;
      for (size_t i = 0; i < 8; ++i) {
        if (subset >> i & 1) gpus.push_back(all[i]);
      }
      const auto groups = find_groups(topology, gpus, GroupRule::kGpuOnly);
      expect_partition(topology, gpus, groups);
      std::vector<std::vector<int>> scratch;
      EXPECT_EQ(groups.size(), fewest_groups(topology, gpus, 0, scratch)) << name << " " << subset;
      // Selecting first and grouping then gives the same result.
      const Topology part = select(topology, gpus);
      EXPECT_EQ(to_text(part, find_groups(part, GroupRule::kGpuOnly)), to_text(topology, groups));
    }
  }
}

// Pairs that are not joined cost nothing: a table of all pairs of these GPUs would not fit into any memory.
TEST(Groups, OfManyGpusThatNothingJoinsAreFoundAtOnce) {
  Topology topology;
  topology.name = "many";
  for (int i = 0; i < 200'000; ++i) {
    Device device;
    device.name = "gpu" + std::to_string(i);
    topology.add_device(device);
  }
  topology.add_link({7, 199'999, LinkKind::kNvlink, 1, 25, ""});
  const auto groups = find_groups(topology, GroupRule::kNvGroup);
  EXPECT_EQ(groups.size(), 199'999u);
  EXPECT_EQ(groups[7].gpus, (std::vector<int>{7, 199'999}));
}

TEST(Groups, OfAMeshOfXgmiLinksAreAsOfNvlinks) {
  Topology topology = machine("tsubame3");
  for (Link& link : topology.links) {
    if (link.kind == LinkKind::kNvlink) link.kind = LinkKind::kXgmi;
  }
  EXPECT_NO_THROW(validate(topology));
  EXPECT_EQ(groups_of(topology, GroupRule::kNvGroup), "group 0: gpu0 gpu1 gpu2 gpu3\n");
}

Topology random_mesh(unsigned seed, int gpus, unsigned percent) {
  std::mt19937 random(seed);
  Topology topology;
  topology.name = "random";
  for (int i = 0; i < gpus; ++i) {
    Device device;
    device.name = "gpu" + std::to_string(i);
    topology.add_device(device);
  }
  for (int i = 0; i < gpus; ++i) {
    for (int j = 0; j < i; ++j) {
      if (random() % 100 < percent) topology.add_link({j, i, LinkKind::kNvlink, 1, 20.0 + random() % 3, ""});
    }
  }
  return topology;
}

TEST(Groups, OfRandomMeshesAreCliques) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const int gpus = 1 + static_cast<int>(seed % 9);
    const Topology topology = random_mesh(seed, gpus, 20 + seed);
    const auto groups = find_groups(topology, GroupRule::kGpuOnly);
    expect_partition(topology, devices_of(topology, DeviceKind::kGpu), groups);
    std::vector<std::vector<int>> scratch;
    EXPECT_EQ(groups.size(), fewest_groups(topology, devices_of(topology, DeviceKind::kGpu), 0, scratch)) << seed;
  }
  // Sixteen is the largest exact set. Larger sets are divided greedily, and both end.
  for (const int gpus : {16, 17, 40}) {
    const Topology topology = random_mesh(5, gpus, 60);
    expect_partition(topology, devices_of(topology, DeviceKind::kGpu), find_groups(topology, GroupRule::kGpuOnly));
  }
}

}  // namespace
}  // namespace plait
