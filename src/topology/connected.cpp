// Floods the machine from rank 0, over links that a path may cross.
#include "topology/connected.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "base/error.hpp"

namespace plait {
namespace {

class Flood {
 public:
  Flood(const Topology& topology, const std::vector<int>& devices)
      : topology_(topology),
        has_rank_(topology.devices.size()),
        is_reached_(topology.devices.size()),
        links_(topology.devices.size()) {
    std::set<int> nodes;
    for (const int it : devices) {
      has_rank_[static_cast<size_t>(it)] = true;
      nodes.insert(device(it).node);
    }
    over_network_ = nodes.size() > 1;
    for (const Link& link : topology.links) {
      links_[static_cast<size_t>(link.a)].push_back({link.b, link.kind});
      links_[static_cast<size_t>(link.b)].push_back({link.a, link.kind});
    }
    reach(devices.front());
    while (!frontier_.empty()) {
      const int at = frontier_.back();
      frontier_.pop_back();
      for (const auto& [neighbour, kind] : links_[static_cast<size_t>(at)]) cross(at, neighbour, kind);
    }
  }

  bool reaches(int it) const { return is_reached_[static_cast<size_t>(it)]; }

 private:
  struct Neighbour {
    int device;
    LinkKind kind;
  };

  const Device& device(int it) const { return topology_.devices[static_cast<size_t>(it)]; }
  bool has_rank(int it) const { return has_rank_[static_cast<size_t>(it)]; }

  bool passes(int it) const {
    switch (device(it).kind) {
      case DeviceKind::kCpu:
      case DeviceKind::kPcieSwitch:
        return true;
      case DeviceKind::kNic:
      case DeviceKind::kNetSwitch:
        return over_network_;
      default:
        return has_rank(it);
    }
  }

  void cross(int from, int to, LinkKind kind) {
    if (device(from).kind == DeviceKind::kNvSwitch || device(to).kind == DeviceKind::kNvSwitch) {
      if (device(from).kind == DeviceKind::kGpu || has_rank(to)) reach(to);  // between GPUs alone
    } else if (passes(to)) {
      reach(to);
    } else if (device(to).kind == DeviceKind::kGpu && joins_gpus(kind)) {  // a GPU without a rank relays
      for (const auto& [next, onward] : links_[static_cast<size_t>(to)]) {
        if (has_rank(next) && joins_gpus(onward)) reach(next);
      }
    }
  }

  void reach(int it) {
    if (is_reached_[static_cast<size_t>(it)]) return;
    is_reached_[static_cast<size_t>(it)] = true;
    frontier_.push_back(it);
  }

  const Topology& topology_;
  bool over_network_ = false;
  std::vector<bool> has_rank_, is_reached_;
  std::vector<std::vector<Neighbour>> links_;
  std::vector<int> frontier_;
};

// "gpu0 (rank 0, node 0)"
std::string named(const Topology& topology, const std::vector<int>& devices, int rank) {
  const Device& device = topology.devices[static_cast<size_t>(devices[static_cast<size_t>(rank)])];
  return join(device.name, " (rank ", rank, topology.nodes > 1 ? join(", node ", device.node) : "", ")");
}

}  // namespace

std::optional<int> find_unconnected(const Topology& topology, const std::vector<int>& devices) {
  const Flood flood(topology, devices);
  const auto found = std::find_if(devices.begin(), devices.end(), [&](int device) { return !flood.reaches(device); });
  if (found == devices.end()) return std::nullopt;
  return static_cast<int>(found - devices.begin());
}

void check_connected(const Topology& topology, const std::vector<int>& devices) {
  const std::optional<int> lost = find_unconnected(topology, devices);
  if (!lost) return;
  const auto node_of = [&](int rank) {
    return topology.devices[static_cast<size_t>(devices[static_cast<size_t>(rank)])].node;
  };
  const bool on_one_node = node_of(0) == node_of(*lost);
  fail(ErrorCode::kInvalidArgument, "no path leads from ", named(topology, devices, 0), " to ",
       named(topology, devices, *lost), " of ", topology.name, ", so ranks there have no calls in common; ",
       on_one_node ? "add links to the machine: between them, or between the CPUs that they have links to (socket)"
                   : "add to the machine: on each of the two nodes a nic with a link (pcie) to its CPU, and links "
                     "(network) from both to one netswitch of node -1");
}

}  // namespace plait
