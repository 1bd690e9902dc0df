// Changes of machines.
#include "topology/change.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "topology/machines.hpp"
#include "topology/merge.hpp"
#include "topology/readers.hpp"
#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

size_t gpus(const Topology& topology) { return devices_of(topology, DeviceKind::kGpu).size(); }

double gbps_between(const Topology& topology, const std::string& a, const std::string& b) {
  const int from = device_named(topology, a), to = device_named(topology, b);
  for (const Link& link : topology.links) {
    if (std::minmax(link.a, link.b) == std::minmax(from, to)) return link.gbps;
  }
  return 0;
}

TEST(Change, DropsAGpuOfOneNodeOrOfAll) {
  const Topology cluster = machine("dgx1-v100", 2);
  EXPECT_EQ(gpus(changed(machine("dgx1-v100"), "drop:gpu7")), 7u);
  EXPECT_EQ(gpus(changed(cluster, "drop:gpu7")), 14u);
  const Topology one_less = changed(cluster, "drop:n1.gpu7");
  EXPECT_EQ(gpus(one_less), 15u);
  device_named(one_less, "n0.gpu7");
}

TEST(Change, AddsALinkOrWidensIt) {
  const Topology dgx = machine("dgx1-v100");
  ASSERT_EQ(gbps_between(dgx, "gpu0", "gpu5"), 0);
  EXPECT_EQ(gbps_between(changed(dgx, "add:nvlink:gpu0:gpu5"), "gpu0", "gpu5"), 25);  // one lane of V100
  EXPECT_EQ(gbps_between(changed(dgx, "add:nvlink:gpu0:gpu5:60.5"), "gpu5", "gpu0"), 60.5);
  const double before = gbps_between(dgx, "gpu0", "gpu1");
  EXPECT_EQ(gbps_between(changed(dgx, "add:nvlink:gpu1:gpu0"), "gpu0", "gpu1"), before + 25);
  const Topology cluster = changed(machine("dgx1-v100", 3), "add:nvlink:gpu0:gpu5");
  for (const char* node : {"n0", "n1", "n2"}) {
    EXPECT_EQ(gbps_between(cluster, join(node, ".gpu0"), join(node, ".gpu5")), 25) << node;
  }
}

TEST(Change, GivesPortsAnotherBandwidth) {
  const Topology before = machine("abci", 2), after = with_ports(before, 0.5, "a measurement");
  int ports = 0;
  for (const int nic : devices_of(after, DeviceKind::kNic)) {
    EXPECT_EQ(after.devices[static_cast<size_t>(nic)].port_gbps, 0.5);
    EXPECT_EQ(after.devices[static_cast<size_t>(nic)].source, "a measurement");
    ++ports;
  }
  EXPECT_GT(ports, 1);
  for (size_t i = 0; i < after.links.size(); ++i) {
    const bool is_of_nic = after.links[i].kind == LinkKind::kNetwork;
    EXPECT_EQ(after.links[i].gbps, is_of_nic ? 0.5 : before.links[i].gbps);
  }
  validate(after);
}

// No other link knows how fast the network is.
TEST(Change, WidensWhatIsAssumedToAPort) {
  HostView host{"a", {}};
  host.topology = parse_machine_json(R"({"format": "plait-machine 1", "name": "live", "source": "test",
    "devices": [{"kind": "cpu", "names": ["cpu0"], "cores": 2}], "links": []})",
                                     "test");
  HostView other = host;
  other.host = "b";
  const Topology made = with_ports(merge({host, other}), 1000, "a measurement");
  for (const Link& link : made.links) EXPECT_EQ(link.gbps, 1000) << link.source;
  EXPECT_EQ(made.links.size(), 4u);
  for (const int nic : devices_of(made, DeviceKind::kNic)) {
    EXPECT_EQ(made.devices[static_cast<size_t>(nic)].source, "assumed; a measurement");
  }
}

TEST(Change, ScalesLinksOfAKindAndNicsWithTheNetwork) {
  const Topology before = machine("abci", 2), after = changed(before, "scale:network:0.5");
  for (size_t i = 0; i < before.links.size(); ++i) {
    const double factor = before.links[i].kind == LinkKind::kNetwork ? 0.5 : 1;
    EXPECT_EQ(after.links[i].gbps, before.links[i].gbps * factor);
  }
  const auto nic = static_cast<size_t>(devices_of(before, DeviceKind::kNic)[0]);
  EXPECT_EQ(after.devices[nic].port_gbps, before.devices[nic].port_gbps / 2);
}

TEST(Change, AppliesSeveralInOrder) {
  const Topology made = changed(machine("dgx1-v100"), "scale:nvlink:2,add:nvlink:gpu0:gpu5,drop:gpu7");
  EXPECT_EQ(gpus(made), 7u);
  EXPECT_EQ(gbps_between(made, "gpu0", "gpu5"), 50);
}

TEST(Change, SaysWhatIsLegal) {
  const Topology dgx = machine("dgx1-v100"), cluster = machine("dgx1-v100", 2);
  const auto refuse = [](const Topology& topology, const char* change, const char* why) {
    expect_contains(error_of([&] { changed(topology, change); }, ErrorCode::kInvalidArgument), why);
  };
  for (const char* no_change :
       {"", "drop", "drop:", "faster", "drop:gpu0:gpu1", "add:nvlink:gpu0", ",", "drop:gpu0,"}) {
    EXPECT_THROW(changed(dgx, no_change), Error) << no_change;
  }
  refuse(dgx, "faster", "is no change; write drop:gpu3");
  refuse(dgx, "drop:cpu0", "drops what is no GPU");
  refuse(dgx, "drop:gpu8", "has no device \"gpu8\"; it has");
  refuse(dgx, "scale:pci:2", "names no kind of link");
  refuse(dgx, "scale:xgmi:2", "dgx1-v100 has no such link");
  for (const char* number : {"0", "-1", "inf", "nan", "2x", ""}) {
    refuse(dgx, join("scale:nvlink:", number).c_str(), "ends with no number above 0");
  }
  refuse(dgx, "add:xgmi:gpu0:gpu1", "needs a bandwidth");
  refuse(cluster, "add:nvlink:n0.gpu0:gpu5", "joins one device to several");
  EXPECT_THROW(changed(dgx, "add:nvlink:gpu0:gpu0"), Error);
  EXPECT_THROW(changed(dgx, "add:socket:gpu0:gpu1:5"), Error);
}

}  // namespace
}  // namespace plait
