// Copies one machine and joins the copies by network switches.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "topology/topology.hpp"

namespace plait {
namespace {

constexpr int kMaxCopies = 1 << 16;

int add_switch(Topology& topology, int number, const char* model) {
  Device device;
  device.kind = DeviceKind::kNetSwitch;
  device.name = join(name(DeviceKind::kNetSwitch), number);
  device.node = kNoNode;
  device.model = model;
  device.source = topology.network.source;
  return topology.add_device(std::move(device));
}

struct Rack {
  int switch_device;
  int nics = 0;     // of the nodes that exist
  double gbps = 0;  // bandwidth of these NICs
  int node_count = 0;
};

}  // namespace

void join_nodes(Topology& topology) {
  const int rack_nodes = topology.network.rack_nodes > 0 ? topology.network.rack_nodes : topology.nodes;
  const int rack_count = (topology.nodes + rack_nodes - 1) / rack_nodes;
  const std::vector<int> nics = devices_of(topology, DeviceKind::kNic);
  std::vector<Rack> racks;
  for (int i = 0; i < rack_count; ++i) {
    racks.push_back(
        {add_switch(topology, i, topology.network.rack_nodes > 0 ? "rack switch" : "switch, full bisection")});
    racks.back().node_count = std::min(rack_nodes, topology.nodes - i * rack_nodes);
  }
  for (const int nic : nics) {
    const Device& device = topology.devices[static_cast<size_t>(nic)];
    if (device.port_gbps <= 0) continue;
    Rack& rack = racks[static_cast<size_t>(device.node / rack_nodes)];
    rack.nics += 1;
    rack.gbps += device.port_gbps;
    topology.add_link({nic, rack.switch_device, LinkKind::kNetwork, 1, device.port_gbps, device.source});
  }
  if (rack_count < 2) return;
  const int top = add_switch(topology, rack_count, "top switch");
  for (const Rack& rack : racks) {
    // A rack that is only partly used has the uplink of a full one.
    if (rack.nics == 0) continue;
    const double full = static_cast<double>(rack_nodes) / rack.node_count * topology.network.bisection;
    const int width = std::max(1, static_cast<int>(std::lround(rack.nics * full)));
    topology.add_link({rack.switch_device, top, LinkKind::kNetwork, width, rack.gbps * full, topology.network.source});
  }
}

Topology replicate(const Topology& machine, int nodes) {
  if (nodes < 1 || nodes > kMaxCopies) {
    fail(ErrorCode::kInvalidArgument, "replicate: nodes must be from 1 to ", kMaxCopies, ", not ", nodes);
  }
  if (nodes == 1) return machine;
  if (machine.nodes != 1) {
    fail(ErrorCode::kInvalidArgument, "replicate: topology ", machine.name, " has ", counted(machine.nodes, "node"),
         " already; only a machine of one node can be replicated");
  }
  const auto is_outside = [](const Device& device) {
    return device.kind == DeviceKind::kNvSwitch && device.node == kNoNode;
  };
  const bool reachable = std::any_of(machine.devices.begin(), machine.devices.end(), [](const Device& device) {
    return device.kind == DeviceKind::kNic && device.port_gbps > 0;
  });
  const bool joined = std::any_of(machine.devices.begin(), machine.devices.end(), is_outside);
  if (!reachable && !joined) {
    fail(ErrorCode::kInvalidArgument, "replicate: topology ", machine.name,
         " has no NIC with a known bandwidth, so its copies cannot be joined; add a nic with port_gbps to its "
         "description");
  }
  const auto copies = static_cast<size_t>(nodes);
  const size_t gpus = joined ? copies * devices_of(machine, DeviceKind::kGpu).size() : 0;
  if (copies * (machine.devices.size() + 1) > kMostDevices || copies * (machine.links.size() + 1) > kMostLinks ||
      gpus > kMostJoinedGpus) {
    fail(ErrorCode::kInvalidArgument, "replicate: ", nodes, " copies of topology ", machine.name,
         " are too many: at most ", kMostDevices, " devices, ", kMostLinks, " links, and ", kMostJoinedGpus,
         " GPUs on one NVSwitch are allowed");
  }
  Topology result = machine;
  result.nodes = nodes;
  result.devices.clear();
  result.links.clear();
  result.open_links.clear();  // the targets of a copy's links are not known
  std::vector<int> place(
      machine.devices.size());  // indices in the result of the machine's devices, for the node that is being copied
  for (int node = 0; node < nodes; ++node) {
    for (size_t i = 0; i < machine.devices.size(); ++i) {
      Device device = machine.devices[i];
      if (is_outside(device) && node > 0) continue;
      if (!is_outside(device)) {
        device.name = join("n", node, ".", device.name);
        device.node = node;
      }
      place[i] = result.add_device(std::move(device));
    }
    for (Link link : machine.links) {
      const bool both_outside = is_outside(machine.devices[static_cast<size_t>(link.a)]) &&
                                is_outside(machine.devices[static_cast<size_t>(link.b)]);
      if (both_outside && node > 0) continue;
      link.a = place[static_cast<size_t>(link.a)];
      link.b = place[static_cast<size_t>(link.b)];
      result.add_link(std::move(link));
    }
  }
  if (reachable) join_nodes(result);
  return result;
}

}  // namespace plait
