// Ranks on devices.
#include "model/placement.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

template <class Call>
void expect_invalid(const Call& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "no error, but one with '" << part << "' was due";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

std::vector<std::string> names(const Topology& topology, const std::vector<int>& devices) {
  std::vector<std::string> names;
  for (const int device : devices) names.push_back(topology.devices[device].name);
  return names;
}

TEST(Placement, OneRankAGpuWithTheCpuNextToIt) {
  const Topology summit = machine("summit");
  const Placement placement = place_ranks(summit, 6);
  EXPECT_EQ(names(summit, placement.device_of_rank),
            (std::vector<std::string>{"gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "gpu5"}));
  EXPECT_EQ(names(summit, placement.cpu_of_rank),
            (std::vector<std::string>{"cpu0", "cpu0", "cpu0", "cpu1", "cpu1", "cpu1"}));
}

TEST(Placement, BehindPcieSwitchesAndOnSeveralNodes) {
  const Topology dgx = machine("dgx1-v100", 2);
  const Placement placement = place_ranks(dgx, 16);
  for (int rank = 0; rank < 16; ++rank) {
    const Device& gpu = dgx.devices[placement.device_of_rank[rank]];
    const Device& cpu = dgx.devices[placement.cpu_of_rank[rank]];
    EXPECT_EQ(cpu.kind, DeviceKind::kCpu);
    EXPECT_EQ(gpu.node, rank / 8);
    EXPECT_EQ(cpu.node, gpu.node);
    EXPECT_EQ(cpu.name.back(), rank % 8 < 4 ? '0' : '1') << gpu.name;
  }
}

TEST(Placement, FewerRanksThanGpusAreSpreadEvenlyOverTheNodes) {
  const Topology kesch = machine("kesch", 2);
  EXPECT_EQ(names(kesch, place_ranks(kesch, 8).device_of_rank),
            (std::vector<std::string>{"n0.gpu0", "n0.gpu1", "n0.gpu2", "n0.gpu3", "n1.gpu0", "n1.gpu1", "n1.gpu2",
                                      "n1.gpu3"}));
  EXPECT_EQ(names(kesch, place_ranks(kesch, 2).device_of_rank), (std::vector<std::string>{"n0.gpu0", "n1.gpu0"}));
  EXPECT_EQ(place_ranks(kesch, 32).device_of_rank, devices_of(kesch, DeviceKind::kGpu));
  expect_invalid([&] { place_ranks(kesch, 9); },
                 "9 ranks cannot be spread evenly over the 2 nodes of kesch; these numbers near it can: 8, 10. Or");
  expect_invalid([&] { place_ranks(kesch, 1); }, "these numbers near it can: 2. Or");
  expect_invalid([&] { place_ranks(kesch, 31); }, "these numbers near it can: 30, 32. Or");
  // On one node they are the first, whatever their number.
  EXPECT_EQ(names(machine("kesch"), place_ranks(machine("kesch"), 3).device_of_rank),
            (std::vector<std::string>{"gpu0", "gpu1", "gpu2"}));
  // A node of few GPUs bounds all others, but all GPUs can be taken.
  std::vector<int> unequal = devices_of(kesch, DeviceKind::kGpu);
  unequal.resize(18);  // 16 and 2
  const Topology part = select(kesch, unequal);
  EXPECT_EQ(place_ranks(part, 4).device_of_rank.size(), 4u);
  EXPECT_EQ(place_ranks(part, 18).device_of_rank.size(), 18u);
  expect_invalid([&] { place_ranks(part, 6); }, "these numbers near it can: 4, 18. Or");
}

TEST(Placement, SeveralRanksMayShareAGpu) {
  const Topology summit = machine("summit");
  const std::vector<int> gpus = devices_of(summit, DeviceKind::kGpu);
  const Placement placement = place_ranks(summit, std::vector<int>{gpus[1], gpus[4], gpus[1], gpus[0]});
  EXPECT_EQ(names(summit, placement.cpu_of_rank), (std::vector<std::string>{"cpu0", "cpu1", "cpu0", "cpu0"}));
  const AlgorithmArguments arguments = arguments_for(summit, placement, Collective::kAllReduce);
  EXPECT_EQ(arguments.groups, (std::vector<std::vector<int>>{{0, 2, 3}, {1}}));
  EXPECT_EQ(arguments.node_of, (std::vector<int>{0, 0, 0, 0}));
  // Also where nothing else joins GPUs.
  const Topology box = machine("pcie-4");
  const std::vector<int> cards = devices_of(box, DeviceKind::kGpu);
  const Placement shared = place_ranks(box, std::vector<int>{cards[0], cards[1], cards[0], cards[1]});
  EXPECT_EQ(arguments_for(box, shared, Collective::kAllReduce).groups, (std::vector<std::vector<int>>{{0, 2}, {1, 3}}));
}

TEST(Placement, AListInAnyOrder) {
  const Topology summit = machine("summit");
  std::vector<int> gpus = devices_of(summit, DeviceKind::kGpu);
  const std::vector<int> order = {gpus[4], gpus[0], gpus[3]};
  const Placement placement = place_ranks(summit, order);
  EXPECT_EQ(placement.device_of_rank, order);
  const AlgorithmArguments arguments = arguments_for(summit, placement, Collective::kReduce);
  EXPECT_EQ(arguments.groups, (std::vector<std::vector<int>>{{0, 2}, {1}}));
  EXPECT_EQ(arguments.ranks, 3);
  EXPECT_EQ(arguments.engine, Engine::kSm);
  EXPECT_EQ(arguments.access, Access::kStaged);
  EXPECT_EQ(arguments.collective, Collective::kReduce);
}

// NVG-34: the groups that the paper names.
TEST(Placement, GroupsBecomeRanks) {
  const auto groups = [](const char* name, int ranks) {
    const Topology topology = machine(name);
    return arguments_for(topology, place_ranks(topology, ranks), Collective::kAllReduce).groups;
  };
  EXPECT_EQ(groups("summit", 6), (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(groups("lassen", 4), (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(groups("tsubame3", 4), (std::vector<std::vector<int>>{{0, 1, 2, 3}}));
  EXPECT_EQ(groups("dgx2", 16).size(), 1u);
  EXPECT_EQ(groups("pcie-4", 4), (std::vector<std::vector<int>>{{0}, {1}, {2}, {3}}));
}

// In a plan a node is where load, store and signals reach, and NVLink reaches all hosts of its domain.
TEST(Placement, HostsOfOneNvlinkDomainAreOneNodeOfThePlan) {
  const Topology rack = machine("gb200-nvl72");
  const AlgorithmArguments arguments = arguments_for(rack, place_ranks(rack, 72), Collective::kAllReduce);
  EXPECT_EQ(arguments.node_of, std::vector<int>(72, 0));
  ASSERT_EQ(arguments.groups.size(), 1u);
  EXPECT_EQ(arguments.groups[0].size(), 72u);
  // The lowest node gives its number; nodes without ranks do not count.
  const std::vector<int> some = {device_named(rack, "n9.gpu1"), device_named(rack, "n5.gpu0")};
  EXPECT_EQ(arguments_for(rack, place_ranks(rack, some), Collective::kAllReduce).node_of, (std::vector<int>{5, 5}));
}

// A host of which only some GPUs hang on the switch is a node by itself: the others of its ranks are out of reach.
TEST(Placement, OnlyWholeHostsJoinAnotherNode) {
  Topology rack = machine("gb200-nvl72");
  const int left_out = device_named(rack, "n1.gpu3"), nvswitch = device_named(rack, "nvswitch0");
  std::erase_if(rack.links, [&](const Link& link) {
    return (link.a == left_out && link.b == nvswitch) || (link.b == left_out && link.a == nvswitch);
  });
  const AlgorithmArguments arguments = arguments_for(rack, place_ranks(rack, 72), Collective::kAllReduce);
  for (int rank = 0; rank < 72; ++rank) EXPECT_EQ(arguments.node_of[rank], rank / 4 == 1 ? 1 : 0) << rank;
}

TEST(Placement, ErrorsNameTheDevice) {
  const Topology summit = machine("summit");
  const std::vector<int> gpus = devices_of(summit, DeviceKind::kGpu);
  const int cpu = devices_of(summit, DeviceKind::kCpu)[0], nic = devices_of(summit, DeviceKind::kNic)[0];
  expect_invalid([&] { place_ranks(summit, 7); }, "summit has 6 GPUs, too few for 7 ranks");
  expect_invalid([&] { place_ranks(summit, 0); }, "at least one rank");
  expect_invalid([&] { place_ranks(summit, std::vector<int>{}); }, "at least one rank");
  expect_invalid([&] { place_ranks(summit, std::vector<int>{gpus[0], 99}); }, "summit has no device 99");
  expect_invalid([&] { place_ranks(summit, std::vector<int>{-1}); }, "summit has no device -1");
  expect_invalid([&] { place_ranks(summit, std::vector<int>{gpus[2], nic}); }, "rank 1 cannot run on nic0");
  expect_invalid([&] { place_ranks(summit, std::vector<int>{gpus[2], cpu}); }, "rank 1 is on cpu0 and rank 0 on gpu2");
  Topology lonely;
  lonely.name = "lonely";
  Device gpu;
  gpu.name = "gpu0";
  lonely.add_device(gpu);
  expect_invalid([&] { place_ranks(lonely, 1); }, "gpu0 of lonely reaches no CPU");
  expect_invalid([&] { place_ranks(Topology{}, 1); }, "neither GPUs nor CPUs");
}

}  // namespace
}  // namespace plait
