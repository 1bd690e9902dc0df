#include "topology/topology.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_set>

#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

constexpr std::array<const char*, kDeviceKindCount> kDeviceKindNames = {"gpu",        "cpu", "memory",   "nvswitch",
                                                                        "pcieswitch", "nic", "netswitch"};
constexpr std::array<const char*, kLinkKindCount> kLinkKindNames = {"nvlink", "xgmi",   "pcie",
                                                                    "socket", "memory", "network"};

template <class Kind, size_t kCount>
bool parse_kind(std::string_view text, const std::array<const char*, kCount>& names, Kind& kind) {
  for (size_t i = 0; i < kCount; ++i) {
    if (text == names[i]) {
      kind = static_cast<Kind>(i);
      return true;
    }
  }
  return false;
}

// Whether a link of this kind may end at a device of this kind.
bool may_join(LinkKind link, DeviceKind device) {
  switch (link) {
    case LinkKind::kNvlink:
      return device == DeviceKind::kGpu || device == DeviceKind::kCpu || device == DeviceKind::kNvSwitch;
    case LinkKind::kXgmi:
      return device == DeviceKind::kGpu || device == DeviceKind::kCpu;
    case LinkKind::kPcie:
      return device != DeviceKind::kNvSwitch && device != DeviceKind::kNetSwitch && device != DeviceKind::kMemory;
    case LinkKind::kSocket:
      return device == DeviceKind::kCpu;
    case LinkKind::kMemory:
      return device == DeviceKind::kCpu || device == DeviceKind::kMemory;
    case LinkKind::kNetwork:
      return device == DeviceKind::kNic || device == DeviceKind::kNetSwitch;
  }
  return false;
}

void validate_devices(const Topology& topology) {
  std::unordered_set<std::string_view> names;
  for (const Device& device : topology.devices) {
    const auto refuse = [&](const auto&... what) {
      fail(ErrorCode::kInvalidInput, "topology ", topology.name, ": device \"", device.name, "\": ", what...);
    };
    if (device.name.empty()) refuse("a device must have a name");
    if (!names.insert(device.name).second) refuse("this name is used twice");
    const bool may_be_outside = device.kind == DeviceKind::kNetSwitch || device.kind == DeviceKind::kNvSwitch;
    const bool placeless = may_be_outside && device.node == kNoNode;
    if (!placeless && (device.node < 0 || device.node >= topology.nodes)) {
      refuse("node ", device.node, " is not one of the ", counted(topology.nodes, "node"));
    }
    if (device.cores < 0) refuse("cores is negative");
    if (!(device.memory_gb >= 0) || !std::isfinite(device.memory_gb)) refuse("memory_gb must be a size");
    if (!(device.port_gbps >= 0) || !std::isfinite(device.port_gbps)) refuse("port_gbps must be a bandwidth");
  }
}

void validate_links(const Topology& topology) {
  const int count = static_cast<int>(topology.devices.size());
  std::set<std::tuple<int, int, LinkKind>> seen;
  std::set<int> joined_memories;
  for (size_t i = 0; i < topology.links.size(); ++i) {
    const Link& link = topology.links[i];
    if (link.a < 0 || link.a >= count || link.b < 0 || link.b >= count) {
      fail(ErrorCode::kInvalidInput, "topology ", topology.name, ": link ", i, " ends at a device that does not exist");
    }
    const Device& a = topology.devices[static_cast<size_t>(link.a)];
    const Device& b = topology.devices[static_cast<size_t>(link.b)];
    const auto refuse = [&](const auto&... what) {
      fail(ErrorCode::kInvalidInput, "topology ", topology.name, ": ", name(link.kind), " link ", a.name, "-", b.name,
           ": ", what...);
    };
    if (link.a == link.b) refuse("joins a device to itself");
    if (link.width < 1) refuse("width must be at least 1 lane, not ", link.width);
    if (!(link.gbps > 0) || !std::isfinite(link.gbps)) refuse("gbps must be positive and finite, not ", link.gbps);
    if (!may_join(link.kind, a.kind)) refuse("cannot end at a ", name(a.kind));
    if (!may_join(link.kind, b.kind)) refuse("cannot end at a ", name(b.kind));
    if (link.kind == LinkKind::kMemory && a.kind == b.kind) refuse("does not join a CPU socket to its memory");
    const auto outside = [](const Device& end) { return end.kind == DeviceKind::kNvSwitch && end.node == kNoNode; };
    if (link.kind != LinkKind::kNetwork && a.node != b.node && !outside(a) && !outside(b)) {
      refuse("leaves its node; only network links do, and those to an NVSwitch of no node");
    }
    if (!seen.insert({std::min(link.a, link.b), std::max(link.a, link.b), link.kind}).second) {
      refuse("is there twice; write one link with the lanes and bandwidth of both");
    }
    const int memory = a.kind == DeviceKind::kMemory ? link.a : link.b;
    if (link.kind == LinkKind::kMemory && !joined_memories.insert(memory).second) {
      refuse("is a second link to this memory, which belongs to one CPU socket");
    }
  }
}

void validate_open_links(const Topology& topology) {
  for (const OpenLink& link : topology.open_links) {
    const bool known = link.device >= 0 && static_cast<size_t>(link.device) < topology.devices.size();
    const bool gpu = known && topology.devices[static_cast<size_t>(link.device)].kind == DeviceKind::kGpu;
    if (gpu && joins_gpus(link.kind) && link.width >= 1 && link.gbps > 0 && std::isfinite(link.gbps) &&
        !link.bus_id.empty()) {
      continue;
    }
    fail(ErrorCode::kInvalidInput, "topology ", topology.name, ": open link to \"", link.bus_id,
         "\": needs a GPU, the other GPU's bus id, at least one lane and a positive, finite bandwidth");
  }
}

// The numbers of devices and links decide how long everything else takes. GPUs of one net are compared pair by pair.
void validate_size(const Topology& topology) {
  if (topology.devices.size() > kMostDevices || topology.links.size() + topology.open_links.size() > kMostLinks) {
    fail(ErrorCode::kInvalidInput, "topology ", topology.name, ": has ", counted(topology.devices.size(), "device"),
         " and ", counted(topology.links.size(), "link"), "; at most ", kMostDevices, " and ", kMostLinks,
         " are allowed");
  }
}

void validate_joined_gpus(const Topology& topology) {
  std::vector<int> parent(topology.devices.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int device) {
    while (parent[static_cast<size_t>(device)] != device) {
      int& above = parent[static_cast<size_t>(device)];
      device = above = parent[static_cast<size_t>(above)];
    }
    return device;
  };
  for (const Link& link : topology.links) {
    if (joins_gpus(link.kind)) parent[static_cast<size_t>(root(link.a))] = root(link.b);
  }
  std::vector<size_t> gpus(topology.devices.size());
  for (const int gpu : devices_of(topology, DeviceKind::kGpu)) {
    if (++gpus[static_cast<size_t>(root(gpu))] <= kMostJoinedGpus) continue;
    fail(ErrorCode::kInvalidInput, "topology ", topology.name, ": NVLink or xGMI joins more than ", kMostJoinedGpus,
         " GPUs into one net, ", topology.devices[static_cast<size_t>(gpu)].name, " among them");
  }
}

}  // namespace

const char* name(DeviceKind kind) { return kDeviceKindNames[static_cast<size_t>(kind)]; }
const char* name(LinkKind kind) { return kLinkKindNames[static_cast<size_t>(kind)]; }
bool parse(std::string_view text, DeviceKind& kind) { return parse_kind(text, kDeviceKindNames, kind); }
bool parse(std::string_view text, LinkKind& kind) { return parse_kind(text, kLinkKindNames, kind); }

int Topology::add_device(Device device) {
  devices.push_back(std::move(device));
  return static_cast<int>(devices.size()) - 1;
}

void validate(const Topology& topology) {
  if (topology.nodes < 1) fail(ErrorCode::kInvalidInput, "topology ", topology.name, ": needs at least one node");
  const Network& network = topology.network;
  if (network.rack_nodes < 0) {
    fail(ErrorCode::kInvalidInput, "topology ", topology.name, ": network: rack_nodes is negative");
  }
  if (!(network.bisection > 0 && network.bisection <= 1)) {
    fail(ErrorCode::kInvalidInput, "topology ", topology.name,
         ": network: bisection must be above 0 and at most 1, not ", network.bisection);
  }
  validate_size(topology);
  validate_devices(topology);
  validate_links(topology);
  validate_open_links(topology);
  validate_joined_gpus(topology);
}

std::vector<int> devices_of(const Topology& topology, DeviceKind kind) {
  std::vector<int> found;
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    if (topology.devices[i].kind == kind) found.push_back(static_cast<int>(i));
  }
  return found;
}

std::vector<int> devices_of(const Topology& topology, DeviceKind kind, int node) {
  std::vector<int> found = devices_of(topology, kind);
  std::erase_if(found, [&](int i) { return topology.devices[static_cast<size_t>(i)].node != node; });
  return found;
}

int device_named(const Topology& topology, std::string_view wanted) {
  std::string known;
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    const Device& device = topology.devices[i];
    if (device.name == wanted) return static_cast<int>(i);
    if (known.size() < 400) known += (known.empty() ? "" : " ") + device.name;
  }
  fail(ErrorCode::kInvalidArgument, "topology ", topology.name, " has no device \"", wanted, "\"; it has: ", known);
}

Topology select(const Topology& topology, const std::vector<int>& gpus) {
  std::vector<bool> kept(topology.devices.size());
  for (const int gpu : gpus) {
    if (gpu < 0 || static_cast<size_t>(gpu) >= topology.devices.size() ||
        topology.devices[static_cast<size_t>(gpu)].kind != DeviceKind::kGpu) {
      fail(ErrorCode::kInvalidArgument, "select: device ", gpu, " of topology ", topology.name, " is not a GPU");
    }
    if (kept[static_cast<size_t>(gpu)]) {
      fail(ErrorCode::kInvalidArgument, "select: ", topology.devices[static_cast<size_t>(gpu)].name,
           " is listed twice");
    }
    kept[static_cast<size_t>(gpu)] = true;
  }
  Topology result = topology;
  result.devices.clear();
  result.links.clear();
  result.open_links.clear();
  std::vector<int> renumbered(topology.devices.size(), -1);
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    if (topology.devices[i].kind != DeviceKind::kGpu || kept[i]) renumbered[i] = result.add_device(topology.devices[i]);
  }
  for (Link link : topology.links) {
    link.a = renumbered[static_cast<size_t>(link.a)];
    link.b = renumbered[static_cast<size_t>(link.b)];
    if (link.a >= 0 && link.b >= 0) result.add_link(std::move(link));
  }
  for (OpenLink link : topology.open_links) {
    link.device = renumbered[static_cast<size_t>(link.device)];
    if (link.device >= 0) result.open_links.push_back(std::move(link));
  }
  return result;
}

}  // namespace plait
