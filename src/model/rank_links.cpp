// Turns links between devices into links between ranks.
#include "model/rank_links.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "model/link_load.hpp"
#include "topology/paths.hpp"

namespace plait {
namespace {

bool joins_two_gpus(const Topology& topology, const Link& link) {
  const auto is_gpu = [&](int device) {
    return topology.devices[static_cast<size_t>(device)].kind == DeviceKind::kGpu;
  };
  return joins_gpus(link.kind) && is_gpu(link.a) && is_gpu(link.b);
}

bool is_searchable(const Topology& topology, const std::vector<int>& device_of_rank) {
  if (device_of_rank.size() > static_cast<size_t>(kMostLinkedRanks)) return false;
  if (topology.devices[static_cast<size_t>(device_of_rank[0])].kind != DeviceKind::kGpu) return false;
  std::vector<int> devices = device_of_rank;
  std::sort(devices.begin(), devices.end());
  if (std::adjacent_find(devices.begin(), devices.end()) != devices.end()) return false;
  return std::any_of(topology.links.begin(), topology.links.end(),
                     [&](const Link& link) { return joins_two_gpus(topology, link); });
}

std::vector<DeviceLink> direct_links(const Topology& topology, const std::vector<int>& device_of_rank) {
  std::map<int, int> rank_of;
  for (size_t rank = 0; rank < device_of_rank.size(); ++rank) rank_of[device_of_rank[rank]] = static_cast<int>(rank);
  std::map<std::pair<int, int>, double> gbps;
  for (const Link& link : topology.links) {
    const auto a = rank_of.find(link.a), b = rank_of.find(link.b);
    if (!joins_gpus(link.kind) || a == rank_of.end() || b == rank_of.end()) continue;
    gbps[std::minmax(a->second, b->second)] += link.gbps;
  }
  std::vector<DeviceLink> links;
  for (const auto& [ranks, sum] : gbps) links.push_back({ranks.first, ranks.second, sum});
  return links;
}

// The ranks that links join, directly or not, by their lowest.
std::vector<std::vector<int>> joined_parts(int ranks, const std::vector<DeviceLink>& links) {
  std::vector<int> lowest(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) lowest[static_cast<size_t>(rank)] = rank;
  for (const DeviceLink& it : links) {
    const auto [low, high] = std::minmax(lowest[static_cast<size_t>(it.a)], lowest[static_cast<size_t>(it.b)]);
    std::replace(lowest.begin(), lowest.end(), int{high}, int{low});
  }
  std::map<int, std::vector<int>> parts;
  for (int rank = 0; rank < ranks; ++rank) parts[lowest[static_cast<size_t>(rank)]].push_back(rank);
  std::vector<std::vector<int>> all;
  for (auto& [low, members] : parts) all.push_back(std::move(members));
  return all;
}

// Pairs of ranks of different parts, and what they have of the links that they cross.
class Bridges {
 public:
  Bridges(const Topology& topology, const std::vector<int>& device_of_rank)
      : topology_(topology), device_of_rank_(device_of_rank), finder_(topology) {}

  void join(const std::vector<int>& one, const std::vector<int>& other) {
    for (size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
      Bridge bridge{std::min(one[i], other[i]), std::max(one[i], other[i]), {}};
      cross(bridge, bridge.a, bridge.b);
      cross(bridge, bridge.b, bridge.a);
      if (!bridge.hops.empty()) bridges_.push_back(std::move(bridge));
    }
  }

  std::vector<DeviceLink> links() const {
    std::vector<DeviceLink> links;
    for (const Bridge& it : bridges_) {
      double gbps = std::numeric_limits<double>::infinity();
      for (const DirectedLink& hop : it.hops) {
        gbps = std::min(gbps, topology_.links[static_cast<size_t>(hop.link)].gbps / crossings_.at(hop));
      }
      links.push_back({it.a, it.b, gbps});
    }
    return links;
  }

 private:
  struct Bridge {
    int a, b;
    std::vector<DirectedLink> hops;
  };

  void cross(Bridge& bridge, int from, int to) {
    const int first = device_of_rank_[static_cast<size_t>(from)], last = device_of_rank_[static_cast<size_t>(to)];
    if (!finder_.best(first, last)) return;
    const std::vector<Path> paths = carrying_paths(topology_, finder_, first, last);
    for (const Path& path : paths) {
      for (const DirectedLink& hop : path.hops) {
        crossings_[hop] += 1 / static_cast<double>(paths.size());
        bridge.hops.push_back(hop);
      }
    }
  }

  const Topology& topology_;
  const std::vector<int>& device_of_rank_;
  const PathFinder finder_;
  std::map<DirectedLink, double> crossings_;
  std::vector<Bridge> bridges_;
};

}  // namespace

std::vector<DeviceLink> links_between_ranks(const Topology& topology, const Placement& placement) {
  const std::vector<int>& devices = placement.device_of_rank;
  if (!is_searchable(topology, devices)) return {};
  std::vector<DeviceLink> links = direct_links(topology, devices);
  const std::vector<std::vector<int>> parts = joined_parts(static_cast<int>(devices.size()), links);
  Bridges bridges(topology, devices);
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t j = i + 1; j < parts.size(); ++j) bridges.join(parts[i], parts[j]);
  }
  const std::vector<DeviceLink> more = bridges.links();
  links.insert(links.end(), more.begin(), more.end());
  std::sort(links.begin(), links.end(),
            [](const DeviceLink& x, const DeviceLink& y) { return std::tie(x.a, x.b) < std::tie(y.a, y.b); });
  return links;
}

}  // namespace plait
