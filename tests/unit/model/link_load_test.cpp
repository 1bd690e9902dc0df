// Plans on the links of described machines.
#include "model/link_load.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "property/plan_zoo.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

struct OnMachine {
  Topology topology;
  Placement placement;
  AlgorithmArguments arguments;

  OnMachine(Topology machine, int ranks, Collective collective = Collective::kAllReduce)
      : topology(std::move(machine)),
        placement(place_ranks(topology, ranks)),
        arguments(arguments_for(topology, placement, collective)) {}

  LinkLoad load(const char* algorithm) const { return load(make_plan(algorithm, arguments)); }
  LinkLoad load(Plan plan) const { return link_load(verify(std::move(plan)), topology, placement); }

  std::string link_name(int link) const {
    return topology.devices[topology.links[link].a].name + "-" + topology.devices[topology.links[link].b].name;
  }
  // Both directions together, by the names of the ends.
  double bytes(const LinkLoad& load, const std::string& a, const std::string& b) const {
    for (size_t i = 0; i < topology.links.size(); ++i) {
      if (link_name(static_cast<int>(i)) == a + "-" + b) return load.bytes[i][0] + load.bytes[i][1];
    }
    ADD_FAILURE() << "no link " << a << "-" << b;
    return 0;
  }
  std::set<std::string> unused(const LinkLoad& load, LinkKind kind) const {
    std::set<std::string> names;
    for (size_t i = 0; i < topology.links.size(); ++i) {
      if (topology.links[i].kind != kind || load.bytes[i][0] + load.bytes[i][1] > 0) continue;
      names.insert(link_name(static_cast<int>(i)));
    }
    return names;
  }
};

// NVG-05, Fig. 2: what NV-Group's authors measured with NCCL follows from the graph alone.
TEST(LinkLoad, AFlatRingOnSummitUses8Of12NvLinks) {
  const OnMachine summit(machine("summit"), 6);
  const LinkLoad load = summit.load("ring");
  EXPECT_EQ(summit.unused(load, LinkKind::kNvlink),
            (std::set<std::string>{"gpu0-gpu2", "gpu3-gpu5", "cpu0-gpu1", "cpu1-gpu4"}));
  EXPECT_TRUE(summit.unused(load, LinkKind::kSocket).empty());
  // Every hop of the ring carries 2 (p - 1) / p of the message, in one direction.
  const double hop = 2.0 * 5 / 6;
  EXPECT_DOUBLE_EQ(summit.bytes(load, "gpu0", "gpu1"), hop);
  EXPECT_DOUBLE_EQ(summit.bytes(load, "cpu0", "gpu2"), hop);
  EXPECT_DOUBLE_EQ(summit.bytes(load, "cpu0", "cpu1"), 2 * hop);  // there and back
  EXPECT_EQ(load.flows.size(), 6u);
  ASSERT_TRUE(load.busiest.has_value());
  EXPECT_EQ(summit.topology.links[load.busiest->link].kind, LinkKind::kNvlink);
  EXPECT_DOUBLE_EQ(load.busiest_seconds, hop / 50e9);
  EXPECT_NEAR(load.chain_seconds, load.busiest_seconds, load.busiest_seconds * 1e-9);
  EXPECT_DOUBLE_EQ(load.lower_bound(3e9), 3e9 * hop / 50e9);
}

// Between groups the message crosses host memory, and every GPU uses its own link to the host.
TEST(LinkLoad, NvGroupRingOnSummitUsesAll12NvLinks) {
  const OnMachine summit(machine("summit"), 6);
  ASSERT_EQ(summit.arguments.groups, (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}}));
  const LinkLoad load = summit.load("nvgroup_ring");
  EXPECT_TRUE(summit.unused(load, LinkKind::kNvlink).empty());
  EXPECT_TRUE(summit.unused(load, LinkKind::kSocket).empty());
  // 2 (G - 1) / G of the message each way between the two groups.
  EXPECT_DOUBLE_EQ(summit.bytes(load, "cpu0", "cpu1"), 2 * 1.0);
}

TEST(LinkLoad, SwitchesShareEvenly) {
  const OnMachine dgx2(machine("dgx2"), 16);
  const LinkLoad load = dgx2.load("ring");
  std::set<double> amounts;
  for (size_t i = 0; i < dgx2.topology.links.size(); ++i) {
    if (dgx2.topology.links[i].kind != LinkKind::kNvlink) continue;
    for (const double bytes : load.bytes[i]) amounts.insert(bytes);
  }
  EXPECT_EQ(amounts.size(), 1u);  // a ring asks the same of every queue
  EXPECT_GT(*amounts.begin(), 0);
  EXPECT_TRUE(dgx2.unused(load, LinkKind::kNvlink).empty());
  // All that leaves a GPU: 2 (p - 1) / p of the message, over all its queues together.
  double out = 0, gbps = 0;
  for (const Link& link : dgx2.topology.links) {
    if (link.kind != LinkKind::kNvlink) continue;
    if (dgx2.topology.devices[link.a].name != "gpu0" && dgx2.topology.devices[link.b].name != "gpu0") continue;
    out += *amounts.begin();
    gbps += link.gbps;
  }
  EXPECT_NEAR(out, 2.0 * 15 / 16, 1e-12);
  EXPECT_NEAR(load.busiest_seconds, out / (gbps * 1e9), 1e-20);
}

TEST(LinkLoad, NodesAreJoinedByTheNetwork) {
  const OnMachine summit(machine("summit", 2), 12);
  EXPECT_EQ(summit.arguments.node_of, (std::vector<int>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(summit.arguments.groups.size(), 4u);
  const LinkLoad load = summit.load("ring");
  int net = 0;
  for (const Flow& flow : load.flows) {
    if (flow.paths[0].kind != PathKind::kNet) continue;
    ++net;
    EXPECT_NEAR(flow.bytes, 2.0 * 11 / 12, 1e-12);
    EXPECT_NE(summit.topology.devices[flow.from].node, summit.topology.devices[flow.to].node);
  }
  EXPECT_EQ(net, 2);
  EXPECT_EQ(summit.topology.links[load.busiest->link].kind, LinkKind::kNetwork);
}

// Sockets in a row, each with a memory of so many GB/s where that is not 0.
Topology sockets(const std::vector<double>& memory_gbps) {
  Topology host;
  host.name = "sockets";
  for (size_t i = 0; i < memory_gbps.size(); ++i) {
    Device socket;
    socket.kind = DeviceKind::kCpu;
    socket.name = join("cpu", i);
    const int cpu = host.add_device(socket);
    if (i > 0) host.add_link({device_named(host, join("cpu", i - 1)), cpu, LinkKind::kSocket, 1, 40, ""});
    if (memory_gbps[i] == 0) continue;
    socket.kind = DeviceKind::kMemory;
    socket.name = join("memory", i);
    host.add_link({cpu, host.add_device(socket), LinkKind::kMemory, 1, memory_gbps[i], ""});
  }
  validate(host);
  return host;
}

TEST(LinkLoad, RanksOnSocketsUseTheLinkBetweenThem) {
  const OnMachine host(sockets({0, 0}), 4);
  EXPECT_EQ(host.placement.device_of_rank, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(host.placement.cpu_of_rank, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(host.arguments.engine, Engine::kCpu);
  EXPECT_TRUE(host.arguments.groups.empty());
  const LinkLoad load = host.load(test::ring_all_reduce(4));
  EXPECT_DOUBLE_EQ(load.local_bytes, 2 * 1.5);  // r0 -> r1 and r2 -> r3 stay within a socket
  EXPECT_DOUBLE_EQ(load.bytes[0][0], 1.5);
  EXPECT_DOUBLE_EQ(load.bytes[0][1], 1.5);
  EXPECT_DOUBLE_EQ(load.busiest_seconds, 1.5 / 40e9);
}

// What one rank hands to another is written to memory once and read once.
TEST(LinkLoad, RanksOfOneSocketUseItsMemory) {
  const OnMachine host(sockets({100}), 4);
  const LinkLoad load = host.load(test::ring_all_reduce(4));
  EXPECT_EQ(load.local_bytes, 0);
  ASSERT_EQ(load.flows.size(), 1u);
  EXPECT_EQ(load.flows[0].from, load.flows[0].to);
  EXPECT_DOUBLE_EQ(load.flows[0].bytes, 4 * 1.5);
  ASSERT_EQ(load.flows[0].paths.size(), 1u);
  EXPECT_EQ(to_text(host.topology, load.flows[0].paths[0]), "memory0 -> cpu0 -> memory0, direct, 100 GB/s");
  EXPECT_DOUBLE_EQ(load.bytes[0][0], 6);
  EXPECT_DOUBLE_EQ(load.bytes[0][1], 6);
  EXPECT_DOUBLE_EQ(load.busiest_seconds, 6 / 100e9);
  EXPECT_DOUBLE_EQ(load.chain_seconds, 1.5 / 100e9);  // a rank alone
}

TEST(LinkLoad, BetweenSocketsBothMemoriesAndTheLinkBetweenThemAreCrossed) {
  const OnMachine host(sockets({100, 20}), 4);
  const LinkLoad load = host.load(test::ring_all_reduce(4));
  EXPECT_EQ(load.local_bytes, 0);
  // Within a socket one hop of the ring, and out of it and into it one each.
  for (const char* socket : {"0", "1"}) {
    EXPECT_DOUBLE_EQ(host.bytes(load, std::string("cpu") + socket, std::string("memory") + socket),
                     2 * 1.5 + 1.5 + 1.5);
  }
  EXPECT_DOUBLE_EQ(host.bytes(load, "cpu0", "cpu1"), 2 * 1.5);
  EXPECT_DOUBLE_EQ(load.busiest_seconds, 3 / 20e9);
  for (const Flow& flow : load.flows) {
    if (flow.from == flow.to) continue;
    EXPECT_EQ(flow.paths[0].hops.size(), 3u);
    EXPECT_EQ(flow.paths[0].gbps, 20);
    EXPECT_EQ(flow.paths[0].medium, LinkKind::kMemory);
  }
  // A memory that is not described costs nothing.
  const OnMachine half(sockets({100, 0}), 4);
  const LinkLoad load_of_half = half.load(test::ring_all_reduce(4));
  EXPECT_DOUBLE_EQ(load_of_half.local_bytes, 1.5);
  EXPECT_DOUBLE_EQ(load_of_half.busiest_seconds, 1.5 / 40e9);
}

TEST(LinkLoad, RanksOnGpusUseNoMemoryOfTheHost) {
  Topology summit = machine("summit");
  const LinkLoad before = OnMachine(summit, 6).load("nvgroup_ring");
  Device memory;
  memory.kind = DeviceKind::kMemory;
  memory.name = "memory0";
  summit.add_link({device_named(summit, "cpu0"), summit.add_device(memory), LinkKind::kMemory, 1, 1, ""});
  const LinkLoad after = OnMachine(summit, 6).load("nvgroup_ring");
  EXPECT_EQ(after.bytes.back(), (std::array<double, 2>{0, 0}));
  EXPECT_EQ(after.busiest_seconds, before.busiest_seconds);
  EXPECT_EQ(after.chain_seconds, before.chain_seconds);
}

// A plan in which ranks wait for each other needs longer than its links do.
TEST(LinkLoad, ChainsOfWaits) {
  const OnMachine summit(machine("summit"), 3, Collective::kBroadcast);
  const LinkLoad whole = summit.load(test::chain_broadcast(3, 0, 1));
  EXPECT_DOUBLE_EQ(whole.busiest_seconds, 1 / 50e9);
  EXPECT_DOUBLE_EQ(whole.chain_seconds, 2 / 50e9);  // the second hop follows the first
  EXPECT_DOUBLE_EQ(whole.lower_bound(1), 2 / 50e9);
  const LinkLoad parts = summit.load(test::chain_broadcast(3, 0, 10));
  EXPECT_NEAR(parts.chain_seconds, 1.1 / 50e9, 1e-20);  // they overlap but for one part
}

// Two loads over one link in one reduce take the sum of their times, over two links the longer one.
TEST(LinkLoad, CrossingsOfOneOperation) {
  const OnMachine summit(machine("summit"), 3);
  const LinkLoad load = summit.load(test::one_shot_all_reduce(3, 1));
  EXPECT_DOUBLE_EQ(load.chain_seconds, 1 / 50e9);  // each rank stores to two peers at once
  EXPECT_DOUBLE_EQ(load.busiest_seconds, 1 / 50e9);
}

TEST(LinkLoad, AnNvlinkDomainNeedsNoNetwork) {
  const OnMachine rack(machine("gb200-nvl72"), 72);
  const LinkLoad load = rack.load("ring");
  for (const Flow& flow : load.flows) EXPECT_EQ(flow.paths[0].kind, PathKind::kDirect);
  EXPECT_EQ(rack.topology.links[load.busiest->link].kind, LinkKind::kNvlink);
  EXPECT_NEAR(load.busiest_seconds, 2.0 * 71 / 72 / 956.25e9, 1e-18);
}

// Two domains of two hosts: ranks of one reach each other's GPUs, but a group's leader has its host memory for itself.
TEST(LinkLoad, HostMemoryIsNotSharedBetweenHosts) {
  Topology tray = machine("cedar");
  std::erase_if(tray.links, [](const Link& link) { return link.kind == LinkKind::kNvlink; });
  Device nvswitch;
  nvswitch.kind = DeviceKind::kNvSwitch;
  nvswitch.name = "nvswitch0";
  nvswitch.node = kNoNode;
  Topology racks = replicate(tray, 4);
  for (int domain = 0; domain < 2; ++domain) {
    nvswitch.name = join("nvswitch", domain);
    const int outside = racks.add_device(nvswitch);
    for (const int gpu : devices_of(racks, DeviceKind::kGpu)) {
      if (racks.devices[gpu].node / 2 == domain) racks.add_link({gpu, outside, LinkKind::kNvlink, 18, 450, ""});
    }
  }
  validate(racks);
  const OnMachine on(racks, 16);
  EXPECT_EQ(on.arguments.groups.size(), 2u);
  EXPECT_EQ(on.arguments.node_of[4], 0);
  EXPECT_EQ(on.arguments.node_of[8], 2);
  EXPECT_NO_THROW(on.load("ring"));
  try {
    on.load("nvgroup_ring");
    ADD_FAILURE() << "a plan that shares host memory between hosts was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("are on different hosts"), std::string::npos) << error.what();
  }
}

TEST(LinkLoad, ABarrierMovesNothing) {
  const OnMachine summit(machine("summit"), 4, Collective::kBarrier);
  const LinkLoad load = summit.load(test::dissemination_barrier(4));
  EXPECT_TRUE(load.flows.empty());
  EXPECT_FALSE(load.busiest.has_value());
  EXPECT_EQ(load.lower_bound(1e9), 0);
}

// Ranks of one GPU exchange in its memory, over no link.
TEST(LinkLoad, RanksThatShareAGpu) {
  const Topology box = machine("pcie-4");
  const std::vector<int> gpus = devices_of(box, DeviceKind::kGpu);
  const Placement placement = place_ranks(box, std::vector<int>{gpus[0], gpus[0], gpus[1], gpus[1]});
  const LinkLoad load = link_load(verify(test::ring_all_reduce(4)), box, placement);
  EXPECT_DOUBLE_EQ(load.local_bytes, 2 * 1.5);
  EXPECT_EQ(load.flows.size(), 2u);
  const LinkLoad apart = link_load(verify(test::ring_all_reduce(4)), box, place_ranks(box, 4));
  EXPECT_EQ(apart.local_bytes, 0);
  EXPECT_EQ(apart.flows.size(), 4u);
}

// As many ranks as are quick to try, on each node of the machine.
int few_ranks(const Topology& topology) {
  const int gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
  return topology.nodes > 1 ? topology.nodes : std::min(gpus, 8);
}

// Every algorithm has a report on every described machine (NVG-05: "per-link report exists for every algorithm").
TEST(LinkLoad, EveryAlgorithmOnEveryMachine) {
  for (const std::string& name : machine_names()) {
    const Topology topology = machine(name);
    for (const Algorithm& algorithm : algorithms()) {
      for (const Collective collective : algorithm.collectives) {
        const OnMachine on(topology, few_ranks(topology), collective);
        SCOPED_TRACE(name + ", " + std::string(algorithm.name) + ", " + plait::name(collective));
        LinkLoad load;
        try {
          load = on.load(algorithm.make(on.arguments));
        } catch (const Error& error) {  // not for this machine; a wrong plan has another code
          EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
          continue;
        }
        EXPECT_EQ(load.busiest.has_value(), collective != Collective::kBarrier && on.arguments.ranks > 1);
        EXPECT_GE(load.lower_bound(1), load.busiest_seconds);
        double most = 0;
        for (size_t i = 0; i < load.bytes.size(); ++i) {
          for (const double bytes : load.bytes[i]) most = std::max(most, bytes / (topology.links[i].gbps * 1e9));
        }
        EXPECT_NEAR(load.busiest_seconds, most, most * 1e-8);
      }
    }
  }
}

TEST(LinkLoad, NeedsAPlaceForEveryRank) {
  const OnMachine summit(machine("summit"), 4);
  EXPECT_THROW(summit.load(test::ring_all_reduce(5)), Error);
}

}  // namespace
}  // namespace plait
