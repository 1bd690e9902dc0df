#include "topology/paths.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "topology/machines.hpp"
#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

std::vector<std::string> texts(const Topology& topology, const std::vector<Path>& paths) {
  std::vector<std::string> result;
  for (const Path& path : paths) result.push_back(to_text(topology, path));
  return result;
}

std::vector<std::string> texts(const char* name, const char* from, const char* to, int nodes = 1) {
  const Topology topology = machine(name, nodes);
  const PathFinder finder(topology);
  return texts(topology, finder.between(device_named(topology, from), device_named(topology, to)));
}

using Texts = std::vector<std::string>;

// TEM-03 and TEM-25: two paths that share nothing.
TEST(Paths, OfMistAreTwoAndDisjoint) {
  const Topology mist = machine("mist");
  const PathFinder finder(mist);
  const auto paths = finder.between(device_named(mist, "gpu0"), device_named(mist, "gpu1"));
  EXPECT_EQ(texts(mist, paths), (Texts{"gpu0 -> gpu1, direct, 75 GB/s", "gpu0 -> cpu0 -> gpu1, host, 75 GB/s"}));
  EXPECT_TRUE(shared_links(paths[0], paths[1]).empty());
  EXPECT_EQ(paths[1].via, device_named(mist, "cpu0"));
  EXPECT_EQ(paths[0].medium, LinkKind::kNvlink);
}

// TEM-24: 50 direct and 16 through the host; the other two GPUs can relay.
TEST(Paths, OfCedar) {
  EXPECT_EQ(texts("cedar", "gpu0", "gpu1"),
            (Texts{"gpu0 -> gpu1, direct, 50 GB/s", "gpu0 -> gpu2 -> gpu1, relay, 50 GB/s",
                   "gpu0 -> gpu3 -> gpu1, relay, 50 GB/s", "gpu0 -> cpu0 -> gpu1, host, 16 GB/s"}));
}

TEST(Paths, AcrossSocketsOfSummitAreBoundByTheNvlinksToTheHost) {
  EXPECT_EQ(texts("summit", "gpu0", "gpu4"), (Texts{"gpu0 -> cpu0 -> cpu1 -> gpu4, host, 50 GB/s"}));
}

TEST(Paths, ThroughAnNvswitchHaveNoRelays) {
  EXPECT_EQ(texts("hgx-h200-4", "gpu0", "gpu3"),
            (Texts{"gpu0 -> nvswitch0 -> gpu3, direct, 478.125 GB/s", "gpu0 -> cpu0 -> gpu3, host, 63 GB/s"}));
}

TEST(Paths, BelowOnePcieSwitchAreDirectAndBelowTwoAreNot) {
  const Topology kesch = machine("kesch");
  const PathFinder finder(kesch);
  const auto card = finder.between(device_named(kesch, "gpu0"), device_named(kesch, "gpu1"));
  ASSERT_EQ(card.size(), 2u);
  EXPECT_EQ(to_text(kesch, card[0]), "gpu0 -> pcieswitch0 -> gpu1, direct, 16 GB/s");
  EXPECT_EQ(card[0].medium, LinkKind::kPcie);
  EXPECT_EQ(card[1].kind, PathKind::kHost);
  // The host path goes up and down the same PCIe links, but the direct path takes the outer two of them as well.
  EXPECT_EQ(shared_links(card[0], card[1]).size(), 2u);
  const auto far = finder.between(device_named(kesch, "gpu0"), device_named(kesch, "gpu2"));
  ASSERT_EQ(far.size(), 1u);
  EXPECT_EQ(far[0].kind, PathKind::kHost);
}

TEST(Paths, OfDgxOneWithoutALinkAreRelaysAndTheHost) {
  EXPECT_EQ(texts("dgx1-v100", "gpu0", "gpu7"),
            (Texts{"gpu0 -> gpu4 -> gpu7, relay, 50 GB/s", "gpu0 -> gpu3 -> gpu7, relay, 25 GB/s",
                   "gpu0 -> pcieswitch0 -> cpu0 -> cpu1 -> pcieswitch3 -> gpu7, host, 16 GB/s"}));
}

TEST(Paths, ToHostMemory) {
  EXPECT_EQ(texts("mist", "gpu0", "cpu0"), (Texts{"gpu0 -> cpu0, direct, 75 GB/s"}));
  EXPECT_EQ(texts("mist", "cpu1", "gpu0"), (Texts{"cpu1 -> cpu0 -> gpu0, host, 64 GB/s"}));
  EXPECT_EQ(texts("mist", "cpu0", "cpu1"), (Texts{"cpu0 -> cpu1, direct, 64 GB/s"}));
  EXPECT_EQ(texts("abci", "gpu0", "cpu0"), (Texts{"gpu0 -> pcieswitch0 -> cpu0, direct, 16 GB/s"}));
}

TEST(Paths, ToOtherNodesGoThroughTheNearestNics) {
  EXPECT_EQ(texts("abci", "n0.gpu0", "n1.gpu3", 2), (Texts{"n0.gpu0 -> n0.pcieswitch0 -> n0.nic0 -> netswitch0 -> "
                                                           "n1.nic1 -> n1.pcieswitch1 -> n1.gpu3, net, 12.5 GB/s"}));
  // Between racks.
  EXPECT_EQ(texts("abci", "n0.gpu0", "n40.gpu0", 64),
            (Texts{"n0.gpu0 -> n0.pcieswitch0 -> n0.nic0 -> netswitch0 -> netswitch2 -> netswitch1 -> n40.nic0 -> "
                   "n40.pcieswitch0 -> n40.gpu0, net, 12.5 GB/s"}));
  // Two NICs are equally near on TSUBAME3: one path each.
  const Topology tsubame = machine("tsubame3", 2);
  const PathFinder finder(tsubame);
  const auto paths = finder.between(device_named(tsubame, "n0.gpu0"), device_named(tsubame, "n1.gpu2"));
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[1].devices[2], device_named(tsubame, "n0.nic1"));
  // The paths part at the NICs, but share the GPUs' own links.
  EXPECT_EQ(shared_links(paths[0], paths[1]).size(), 2u);
}

TEST(Paths, ToOtherNodesShareTheUplinksOfTheirRacks) {
  const Topology abci = machine("abci", 64);
  const PathFinder finder(abci);
  const auto one = finder.best(device_named(abci, "n0.gpu0"), device_named(abci, "n40.gpu0"));
  const auto two = finder.best(device_named(abci, "n1.gpu3"), device_named(abci, "n41.gpu3"));
  const auto back = finder.best(device_named(abci, "n40.gpu0"), device_named(abci, "n0.gpu0"));
  ASSERT_TRUE(one && two && back);
  EXPECT_EQ(shared_links(*one, *two).size(), 2u);
  EXPECT_TRUE(shared_links(*one, *back).empty());  // opposite directions
}

TEST(Paths, AreChainsOfLinksOnEveryMachine) {
  for (const std::string& name : machine_names()) {
    const Topology topology = machine(name).nodes == 1 ? machine(name, 2) : machine(name);
    const PathFinder finder(topology);
    const std::vector<int> gpus = devices_of(topology, DeviceKind::kGpu);
    for (const int from : gpus) {
      for (const int to : gpus) {
        if (from == to) continue;
        const auto paths = finder.between(from, to);
        ASSERT_FALSE(paths.empty()) << name << " " << from << " " << to;
        for (const Path& path : paths) {
          ASSERT_EQ(path.devices.size(), path.hops.size() + 1);
          EXPECT_EQ(path.devices.front(), from);
          EXPECT_EQ(path.devices.back(), to);
          double narrowest = 1e9;
          for (size_t i = 0; i < path.hops.size(); ++i) {
            const Link& link = topology.links[static_cast<size_t>(path.hops[i].link)];
            EXPECT_EQ(path.hops[i].forward ? link.a : link.b, path.devices[i]);
            EXPECT_EQ(path.hops[i].forward ? link.b : link.a, path.devices[i + 1]);
            narrowest = std::min(narrowest, link.gbps);
          }
          EXPECT_EQ(path.gbps, narrowest);
        }
      }
    }
  }
}

TEST(Paths, CrossHostsDirectlyInAnNvlinkDomain) {
  const Topology rack = machine("gb200-nvl72");
  const PathFinder finder(rack);
  const auto paths = finder.between(device_named(rack, "n3.gpu1"), device_named(rack, "n9.gpu2"));
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_EQ(to_text(rack, paths[0]), "n3.gpu1 -> nvswitch0 -> n9.gpu2, direct, 956.25 GB/s");
  EXPECT_EQ(paths[1].kind, PathKind::kNet);  // two NICs are near each GPU
  // Host memory of another host is accessible only through the network.
  EXPECT_EQ(finder.best(device_named(rack, "n3.gpu1"), device_named(rack, "n9.cpu0"))->kind, PathKind::kNet);
}

TEST(Paths, RefuseEndsWithoutMemory) {
  const Topology mist = machine("mist");
  const PathFinder finder(mist);
  const int gpu = device_named(mist, "gpu0");
  expect_contains(error_of([&] { finder.between(gpu, device_named(mist, "nic0")); }, ErrorCode::kInvalidArgument),
                  "nic0 has no memory");
  expect_contains(error_of([&] { finder.between(gpu, gpu); }, ErrorCode::kInvalidArgument), "both ends are gpu0");
  Topology host = mist;
  Device memory;
  memory.kind = DeviceKind::kMemory;
  memory.name = "memory0";
  const int added = host.add_device(memory);
  expect_contains(error_of([&] { PathFinder(host).between(gpu, added); }, ErrorCode::kInvalidArgument),
                  "memory0 belongs to a CPU; name that CPU");
  EXPECT_THROW(finder.between(-1, gpu), Error);
  EXPECT_THROW(finder.between(gpu, 99), Error);
}

TEST(Paths, AreNoneWhereNothingJoins) {
  Topology topology;
  topology.name = "apart";
  for (const char* name : {"gpu0", "gpu1"}) {
    Device device;
    device.name = name;
    topology.add_device(device);
  }
  EXPECT_TRUE(PathFinder(topology).between(0, 1).empty());
  EXPECT_FALSE(PathFinder(topology).best(0, 1).has_value());
}

}  // namespace
}  // namespace plait
