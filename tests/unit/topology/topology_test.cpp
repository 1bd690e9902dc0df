#include "topology/topology.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/add_device.hpp"
#include "topology/machines.hpp"
#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

Topology pair_of_gpus() {
  Topology topology;
  topology.name = "pair";
  Device device;
  device.name = "gpu0";
  topology.add_device(device);
  device.name = "gpu1";
  topology.add_device(device);
  topology.add_link({0, 1, LinkKind::kNvlink, 2, 50, ""});
  return topology;
}

std::string refusal(const Topology& topology) {
  return error_of([&] { validate(topology); });
}

TEST(Validate, AcceptsAPlainMachine) { EXPECT_NO_THROW(validate(pair_of_gpus())); }

TEST(Validate, RefusesBadDevices) {
  Topology topology = pair_of_gpus();
  topology.devices[1].name = "gpu0";
  expect_contains(refusal(topology), "\"gpu0\": this name is used twice");
  topology.devices[1].name = "";
  expect_contains(refusal(topology), "must have a name");
  topology = pair_of_gpus();
  topology.devices[1].node = 1;
  expect_contains(refusal(topology), "node 1 is not one of the 1 node");
  topology.devices[1].node = kNoNode;
  expect_contains(refusal(topology), "node -1");
  topology = pair_of_gpus();
  topology.devices[0].port_gbps = std::nan("");
  expect_contains(refusal(topology), "port_gbps");
  topology = pair_of_gpus();
  topology.nodes = 0;
  expect_contains(refusal(topology), "at least one node");
}

TEST(Validate, RefusesBadLinks) {
  const auto with = [](auto change) {
    Topology topology = pair_of_gpus();
    change(topology.links[0]);
    return refusal(topology);
  };
  expect_contains(with([](Link& link) { link.b = 0; }), "joins a device to itself");
  expect_contains(with([](Link& link) { link.b = 2; }), "does not exist");
  expect_contains(with([](Link& link) { link.a = -1; }), "does not exist");
  expect_contains(with([](Link& link) { link.width = 0; }), "width must be at least 1");
  expect_contains(with([](Link& link) { link.width = -4; }), "not -4");
  expect_contains(with([](Link& link) { link.gbps = 0; }), "gbps must be positive");
  expect_contains(with([](Link& link) { link.gbps = -1; }), "gbps must be positive");
  expect_contains(with([](Link& link) { link.gbps = std::nan(""); }), "gbps must be positive");
  expect_contains(with([](Link& link) { link.gbps = std::numeric_limits<double>::infinity(); }), "finite");
  expect_contains(with([](Link& link) { link.kind = LinkKind::kSocket; }), "cannot end at a gpu");
  Topology twice = pair_of_gpus();
  twice.add_link({1, 0, LinkKind::kNvlink, 1, 25, ""});
  expect_contains(refusal(twice), "is there twice");
  Topology far = pair_of_gpus();
  far.nodes = 2;
  far.devices[1].node = 1;
  expect_contains(refusal(far), "leaves its node");
}

TEST(Validate, AMemoryHasOneCpu) {
  Topology host;
  host.name = "host";
  for (const char* name : {"cpu0", "cpu1"}) test::add_device(host, DeviceKind::kCpu, name);
  for (const char* name : {"memory0", "memory1"}) test::add_device(host, DeviceKind::kMemory, name);
  host.add_link({0, 2, LinkKind::kMemory, 1, 100, ""});
  EXPECT_NO_THROW(validate(host));
  const auto with = [&](int a, int b, LinkKind kind) {
    Topology more = host;
    more.add_link({a, b, kind, 1, 100, ""});
    return refusal(more);
  };
  expect_contains(with(1, 2, LinkKind::kMemory), "is a second link to this memory");
  expect_contains(with(0, 1, LinkKind::kMemory), "does not join a CPU socket to its memory");
  expect_contains(with(2, 3, LinkKind::kMemory), "does not join a CPU socket to its memory");
  expect_contains(with(1, 3, LinkKind::kPcie), "cannot end at a memory");
}

// Two hosts with one GPU each, and an NVSwitch that both are on.
Topology domain() {
  Topology topology = pair_of_gpus();
  topology.nodes = 2;
  topology.devices[1].node = 1;
  Device nvswitch;
  nvswitch.kind = DeviceKind::kNvSwitch;
  nvswitch.name = "nvswitch0";
  nvswitch.node = kNoNode;
  topology.add_device(nvswitch);
  topology.links = {{0, 2, LinkKind::kNvlink, 18, 900, ""}, {1, 2, LinkKind::kNvlink, 18, 900, ""}};
  return topology;
}

TEST(Validate, AcceptsAnNvswitchOfNoNode) {
  EXPECT_NO_THROW(validate(domain()));
  Topology inside = domain();
  inside.devices[2].node = 0;
  expect_contains(refusal(inside), "nvlink link gpu1-nvswitch0: leaves its node");
  Topology past = domain();
  past.add_link({0, 1, LinkKind::kNvlink, 1, 25, ""});
  expect_contains(refusal(past), "nvlink link gpu0-gpu1: leaves its node");
}

TEST(Validate, BoundsWhatItTakes) {
  const auto star = [](size_t gpus) {
    Topology topology;
    topology.name = "star";
    test::add_device(topology, DeviceKind::kNvSwitch, "nvswitch0");
    for (size_t i = 0; i < gpus; ++i) {
      const int gpu = test::add_device(topology, DeviceKind::kGpu, "gpu" + std::to_string(i));
      topology.add_link({0, gpu, LinkKind::kNvlink, 1, 25, ""});
    }
    return topology;
  };
  EXPECT_NO_THROW(validate(star(kMostJoinedGpus)));
  expect_contains(refusal(star(kMostJoinedGpus + 1)), "NVLink or xGMI joins more than 4096 GPUs into one net, gpu4096");
  Topology many = pair_of_gpus();
  many.devices.resize(kMostDevices + 1);
  expect_contains(refusal(many), "has 1048577 devices and 1 link; at most 1048576 and 2097152 are allowed");
}

TEST(DeviceNamed, ListsWhatIsThere) {
  const Topology topology = pair_of_gpus();
  EXPECT_EQ(device_named(topology, "gpu1"), 1);
  expect_contains(error_of([&] { device_named(topology, "gpu7"); }, ErrorCode::kInvalidArgument), "it has: gpu0 gpu1");
}

TEST(Select, KeepsNamesOrderAndTheRest) {
  const Topology summit = machine("summit");
  const Topology part = select(summit, {device_named(summit, "gpu4"), device_named(summit, "gpu1")});
  EXPECT_NO_THROW(validate(part));
  const std::vector<int> gpus = devices_of(part, DeviceKind::kGpu);
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(part.devices[static_cast<size_t>(gpus[0])].name, "gpu1");
  EXPECT_EQ(part.devices[static_cast<size_t>(gpus[1])].name, "gpu4");
  EXPECT_EQ(devices_of(part, DeviceKind::kCpu).size(), 2u);
  EXPECT_EQ(devices_of(part, DeviceKind::kNic).size(), 2u);
  // The links of the two GPUs to their CPUs stay, and those without GPUs: two NICs and the X-bus.
  EXPECT_EQ(part.links.size(), 5u);
  EXPECT_EQ(select(summit, devices_of(summit, DeviceKind::kGpu)), summit);
}

TEST(Select, RefusesWhatIsNotAGpu) {
  const Topology summit = machine("summit");
  EXPECT_THROW(select(summit, {device_named(summit, "cpu0")}), Error);
  EXPECT_THROW(select(summit, {-1}), Error);
  EXPECT_THROW(select(summit, {1000}), Error);
  const int gpu = device_named(summit, "gpu0");
  expect_contains(error_of([&] { select(summit, {gpu, gpu}); }, ErrorCode::kInvalidArgument), "gpu0 is listed twice");
}

TEST(Replicate, OneNodeStaysAsItIs) { EXPECT_EQ(replicate(machine("mist"), 1), machine("mist")); }

TEST(Replicate, AbciHasRacksWithAThirdOfTheBandwidthBetweenThem) {
  const Topology abci = machine("abci", 64);
  EXPECT_NO_THROW(validate(abci));
  EXPECT_EQ(abci.nodes, 64);
  EXPECT_EQ(devices_of(abci, DeviceKind::kGpu).size(), 256u);
  EXPECT_EQ(devices_of(abci, DeviceKind::kGpu, 63).size(), 4u);
  EXPECT_EQ(abci.devices[static_cast<size_t>(devices_of(abci, DeviceKind::kGpu, 63)[2])].name, "n63.gpu2");
  ASSERT_EQ(devices_of(abci, DeviceKind::kNetSwitch).size(), 3u);
  const int rack0 = device_named(abci, "netswitch0"), rack1 = device_named(abci, "netswitch1");
  const int top = device_named(abci, "netswitch2");
  int in_rack0 = 0, uplinks = 0;
  for (const Link& link : abci.links) {
    if (link.kind != LinkKind::kNetwork) continue;
    if (link.b == top) {
      EXPECT_TRUE(link.a == rack0 || link.a == rack1);
      EXPECT_NEAR(link.gbps, 32 * 2 * 12.5 / 3, 1e-9);
      ++uplinks;
    } else {
      EXPECT_EQ(link.gbps, 12.5);
      EXPECT_EQ(link.b, abci.devices[static_cast<size_t>(link.a)].node < 32 ? rack0 : rack1);
      in_rack0 += link.b == rack0;
    }
  }
  EXPECT_EQ(in_rack0, 64);
  EXPECT_EQ(uplinks, 2);
}

TEST(Replicate, OneRackNeedsNoTopSwitchAndAPartOfARackHasTheUplinkOfAWholeOne) {
  EXPECT_EQ(devices_of(machine("abci", 32), DeviceKind::kNetSwitch).size(), 1u);
  const Topology abci = machine("abci", 33);
  for (const Link& link : abci.links) {
    if (link.b == device_named(abci, "netswitch2")) {
      EXPECT_NEAR(link.gbps, 32 * 2 * 12.5 / 3, 1e-9);
    }
  }
}

TEST(Replicate, AnNvswitchOfNoNodeJoinsAllCopies) {
  Topology tray = pair_of_gpus();
  Device nvswitch;
  nvswitch.kind = DeviceKind::kNvSwitch;
  nvswitch.name = "nvswitch0";
  nvswitch.node = kNoNode;
  const int outside = tray.add_device(nvswitch);
  tray.links = {{0, outside, LinkKind::kNvlink, 18, 900, ""}, {1, outside, LinkKind::kNvlink, 18, 900, ""}};
  const Topology rack = replicate(tray, 3);
  EXPECT_NO_THROW(validate(rack));
  EXPECT_EQ(rack.nodes, 3);
  ASSERT_EQ(devices_of(rack, DeviceKind::kNvSwitch).size(), 1u);
  EXPECT_EQ(rack.devices[static_cast<size_t>(device_named(rack, "nvswitch0"))].node, kNoNode);
  EXPECT_EQ(rack.links.size(), 6u);
  EXPECT_EQ(rack.devices[static_cast<size_t>(device_named(rack, "n2.gpu1"))].node, 2);
  expect_contains(error_of([&] { replicate(tray, 2049); }, ErrorCode::kInvalidArgument), "4096 GPUs on one NVSwitch");
  // A part of the GPUs is on it as before.
  const Topology part = select(rack, {device_named(rack, "n0.gpu0"), device_named(rack, "n2.gpu1")});
  EXPECT_NO_THROW(validate(part));
  EXPECT_EQ(part.links.size(), 2u);
}

TEST(Replicate, RefusesMoreThanTopologiesHold) {
  expect_contains(error_of([] { machine("dgx2", 60'000); }, ErrorCode::kInvalidArgument),
                  "60000 copies of topology dgx2 are too many: at most 1048576 devices");
}

TEST(Replicate, SaysWhyItCannot) {
  const auto refused = [](const Topology& topology, int nodes) {
    return error_of([&] { replicate(topology, nodes); }, ErrorCode::kInvalidArgument);
  };
  expect_contains(refused(pair_of_gpus(), 2), "no NIC with a known bandwidth");
  expect_contains(refused(machine("summit", 2), 2), "has 2 nodes already");
  expect_contains(refused(machine("summit"), 0), "from 1 to");
  expect_contains(refused(machine("summit"), 1 << 20), "from 1 to");
}

}  // namespace
}  // namespace plait
