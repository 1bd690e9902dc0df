#include "topology/merge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/host_views.hpp"
#include "topology/connected.hpp"
#include "topology/describe.hpp"
#include "topology/machines.hpp"
#include "topology/paths.hpp"
#include "topology/readers.hpp"
#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

using test::container;
using test::host;

std::vector<std::string> device_texts(const Topology& topology) {
  std::vector<std::string> texts;
  for (const Device& device : topology.devices)
    texts.push_back(join(device.name, " ", device.bus_id, " ", device.uuid));
  std::sort(texts.begin(), texts.end());
  return texts;
}

std::vector<std::string> link_texts(const Topology& topology) {
  std::vector<std::string> texts;
  for (const Link& link : topology.links) {
    std::string a = topology.devices[static_cast<size_t>(link.a)].name;
    std::string b = topology.devices[static_cast<size_t>(link.b)].name;
    if (b < a) std::swap(a, b);
    texts.push_back(join(name(link.kind), " ", a, " ", b, " ", link.width, " ", link.gbps));
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

void expect_equal(const Topology& merged, const Topology& whole) {
  EXPECT_NO_THROW(validate(merged));
  EXPECT_EQ(merged.nodes, whole.nodes);
  EXPECT_EQ(device_texts(merged), device_texts(whole));
  EXPECT_EQ(link_texts(merged), link_texts(whole));
  EXPECT_TRUE(merged.open_links.empty());
}

TEST(Merge, OfOneViewIsThatView) {
  expect_equal(merge({{"here", host()}}), host());
  expect_equal(merge({{"here", host()}, {"here", host()}}), host());
  expect_contains(merge({{"here", host()}, {"here", host()}}).source, "2 views of 1 host; ");
}

TEST(Merge, UnitesContainersOfOneHost) {
  const Topology whole = host();
  expect_equal(merge({{"here", container(whole, {"gpu4", "gpu5", "gpu6", "gpu7"})},
                      {"here", container(whole, {"gpu0", "gpu1", "gpu2", "gpu3"})}}),
               whole);
  // One GPU each, some in two containers.
  std::vector<HostView> views;
  for (const char* gpu : {"gpu3", "gpu0", "gpu7", "gpu1", "gpu2", "gpu6", "gpu5", "gpu4", "gpu0", "gpu5"}) {
    views.push_back({"here", container(whole, {gpu})});
  }
  expect_equal(merge(views), whole);
}

TEST(Merge, AnyDivisionInAnyOrderGivesTheSame) {
  const Topology whole = host();
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<std::string>> parts(1 + random() % 8);
    for (int gpu = 0; gpu < 8; ++gpu) {
      parts[random() % parts.size()].push_back(join("gpu", gpu));
      if (random() % 4 == 0) parts[random() % parts.size()].push_back(join("gpu", gpu));
    }
    std::vector<HostView> views;
    for (std::vector<std::string>& part : parts) {
      std::sort(part.begin(), part.end());
      part.erase(std::unique(part.begin(), part.end()), part.end());
      if (!part.empty()) views.push_back({"here", container(whole, part)});
    }
    expect_equal(merge(views), whole);
  }
}

TEST(Merge, LinksToGpusThatNobodySeesStayOpen) {
  const Topology merged = merge({{"here", container(host(), {"gpu0"})},
                                 {"here", container(host(), {"gpu1"})},
                                 {"here", container(host(), {"gpu0"})}});
  EXPECT_NO_THROW(validate(merged));
  EXPECT_EQ(devices_of(merged, DeviceKind::kGpu).size(), 2u);
  EXPECT_EQ(to_text(merged, find_groups(merged, GroupRule::kNvGroup)), "group 0: gpu0 gpu1\n");
  EXPECT_EQ(merged.open_links.size(), 6u);  // a DGX-1's GPU has four neighbours
  EXPECT_EQ(parse_machine_json(to_json(merged), "again"), merged);
}

TEST(Merge, GpusWithoutAUuidAreKnownByTheirAddress) {
  Topology whole = host();
  for (Device& device : whole.devices) device.uuid.clear();
  expect_equal(merge({{"h", container(whole, {"gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7"})},
                      {"h", container(whole, {"gpu0", "gpu1", "gpu2"})}}),
               whole);
}

TEST(Merge, HostsBecomeNodesInTheOrderInWhichTheyAppear) {
  const Topology merged =
      merge({{"zeus", container(host("z"), {"gpu5"})}, {"ares", host("a")}, {"zeus", container(host("z"), {"gpu0"})}});
  EXPECT_NO_THROW(validate(merged));
  EXPECT_EQ(merged.nodes, 2);
  const auto uuid = [&](const std::string& name) {
    return merged.devices[static_cast<size_t>(device_named(merged, name))].uuid;
  };
  EXPECT_EQ(uuid("n0.gpu0"), "GPU-z0");
  EXPECT_EQ(uuid("n0.gpu1"), "GPU-z5");
  EXPECT_EQ(uuid("n1.gpu7"), "GPU-a7");
  EXPECT_EQ(devices_of(merged, DeviceKind::kGpu, 0).size(), 2u);
  // The result equals copies of the machine if all of it is seen.
  const Topology both = merge({{"a", host("a")}, {"b", host("b")}});
  Topology copies = replicate(host("a"), 2);
  for (const int gpu : devices_of(copies, DeviceKind::kGpu, 1)) copies.devices[static_cast<size_t>(gpu)].uuid[4] = 'b';
  expect_equal(both, copies);
  const PathFinder finder(both);
  EXPECT_EQ(finder.best(device_named(both, "n0.gpu0"), device_named(both, "n1.gpu0"))->kind, PathKind::kNet);
}

TEST(Merge, HostsOfOneFabricShareItsNvswitch) {
  const auto tray = [](const std::string& serial, const std::string& fabric) {
    Topology topology = host(serial);
    std::erase_if(topology.links, [](const Link& link) { return link.kind == LinkKind::kNvlink; });
    Device nvswitch;
    nvswitch.kind = DeviceKind::kNvSwitch;
    nvswitch.name = "nvswitch0";
    nvswitch.node = kNoNode;
    const int outside = topology.add_device(nvswitch);
    for (const int gpu : devices_of(topology, DeviceKind::kGpu)) {
      topology.devices[static_cast<size_t>(gpu)].fabric = fabric;
      topology.add_link({gpu, outside, LinkKind::kNvlink, 18, 900, ""});
    }
    return topology;
  };
  const Topology racks = merge({{"a", tray("a", "one")}, {"b", tray("b", "two")}, {"c", tray("c", "one")}});
  EXPECT_NO_THROW(validate(racks));
  EXPECT_EQ(devices_of(racks, DeviceKind::kNvSwitch).size(), 2u);
  const auto groups = find_groups(racks, GroupRule::kGpuOnly);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].gpus.size(), 16u);
  // Nothing tells that these two are joined.
  EXPECT_EQ(find_groups(merge({{"a", tray("a", "")}, {"b", tray("b", "")}}), GroupRule::kGpuOnly).size(), 2u);
}

// Linux shows NICs of class infiniband only.
TEST(Merge, HostsOfWhichNoNicIsKnownAreJoinedAllTheSame) {
  Topology bare = host("a");
  for (Device& device : bare.devices) device.port_gbps = 0;
  const Topology merged = merge({{"a", bare}, {"b", host("b")}});
  EXPECT_NO_THROW(validate(merged));
  ASSERT_EQ(merged.notes.size(), 1u);
  expect_contains(merged.notes[0], "assumed: 12.5 GB/s, as one port of 100 Gbit/s, between node 0 and the others");
  const PathFinder finder(merged);
  EXPECT_EQ(finder.best(device_named(merged, "n0.gpu0"), device_named(merged, "n1.gpu0"))->kind, PathKind::kNet);
  EXPECT_EQ(merge({{"a", bare}, {"a", bare}}).notes.size(), 0u);  // one host needs none
}

// Nothing gets to such a NIC.
TEST(Merge, NicsWithoutALinkJoinNoHosts) {
  Topology bare = host("a");
  std::erase_if(bare.links, [&](const Link& link) {
    return bare.devices[link.a].kind == DeviceKind::kNic || bare.devices[link.b].kind == DeviceKind::kNic;
  });
  const Topology merged = merge({{"a", bare}, {"b", host("b")}});
  EXPECT_EQ(find_unconnected(merged, devices_of(merged, DeviceKind::kGpu)), std::nullopt);
  ASSERT_EQ(merged.notes.size(), 1u);
  expect_contains(merged.notes[0], "between node 0 and the others, since no NIC with a port and a link is known there");
}

TEST(Merge, TakesTheWiderLinkAndEveryFact) {
  Topology less = host();
  const int nic = device_named(less, "nic0");
  less.devices[static_cast<size_t>(nic)].port_gbps = 0;
  less.devices[static_cast<size_t>(device_named(less, "cpu0"))].model.clear();
  for (Link& link : less.links) {
    if (link.kind == LinkKind::kPcie) link.width = 8, link.gbps = 8;
  }
  less.notes = {"one view says so", "both do"};
  Topology more = host();
  more.notes = {"both do"};
  const Topology merged = merge({{"here", less}, {"here", more}});
  expect_equal(merged, host());
  EXPECT_EQ(merged.devices[static_cast<size_t>(device_named(merged, "nic0"))].port_gbps, 12.5);
  EXPECT_EQ(merged.devices[static_cast<size_t>(device_named(merged, "cpu0"))].model, "Intel Xeon E5-2698 v4");
  EXPECT_EQ(merged.notes, less.notes);
}

TEST(Merge, SaysWhyItCannot) {
  expect_contains(error_of([] { merge({}); }, ErrorCode::kInvalidArgument), "there is no view");
  expect_contains(error_of([] { merge({{"x", machine("summit", 2)}}); }, ErrorCode::kInvalidArgument),
                  "the view of host x has 2 nodes");
  // Two virtual machines of one name.
  expect_contains(error_of([] { merge({{"node", host("a")}, {"node", host("b")}}); }, ErrorCode::kInvalidArgument),
                  "two views of host node do not fit together: one has GPU GPU-a0 at 0000:00:00.0, the other GPU-b0");
}

}  // namespace
}  // namespace plait
