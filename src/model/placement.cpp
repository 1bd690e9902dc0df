// Ranks on devices.
#include "model/placement.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "topology/paths.hpp"

namespace plait {
namespace {

const Device& device(const Topology& topology, int index) { return topology.devices[static_cast<size_t>(index)]; }

// The CPU of the GPU's node that it reaches directly with the most bandwidth over the fewest links, else any that it
// reaches.
int nearest_cpu(const Topology& topology, const PathFinder& finder, int gpu) {
  std::optional<Path> best;
  const auto better = [](const Path& a, const Path& b) {
    if ((a.kind == PathKind::kDirect) != (b.kind == PathKind::kDirect)) return a.kind == PathKind::kDirect;
    if (a.hops.size() != b.hops.size()) return a.hops.size() < b.hops.size();
    return a.gbps > b.gbps;
  };
  for (const int cpu : devices_of(topology, DeviceKind::kCpu, device(topology, gpu).node)) {
    std::optional<Path> path = finder.best(gpu, cpu);
    if (path && (!best || better(*path, *best))) best = std::move(path);
  }
  if (!best) {
    fail(ErrorCode::kInvalidArgument, "placement: ", device(topology, gpu).name, " of ", topology.name,
         " reaches no CPU, so it has no host memory next to it");
  }
  return best->devices.back();
}

// For each rank the lowest node that load and store reach from its own. Whole nodes only: all GPUs with ranks have to
// be of one group, in which NVLink joins every two of them, also where an NVSwitch outside of the nodes does.
std::vector<int> reachable_nodes(const Topology& topology, const std::vector<int>& device_of_rank,
                                 const std::vector<Group>& groups) {
  constexpr int kSeveral = -1;
  std::map<int, int> group_of_node;
  std::vector<int> lowest_node;  // of each group, of nodes that are wholly in it
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const int gpu : groups[i].gpus) {
      const auto [place, is_new] = group_of_node.emplace(device(topology, gpu).node, static_cast<int>(i));
      if (!is_new && place->second != static_cast<int>(i)) place->second = kSeveral;
    }
  }
  lowest_node.assign(groups.size(), std::numeric_limits<int>::max());
  for (const auto& [node, group] : group_of_node) {
    if (group == kSeveral) continue;
    int& lowest = lowest_node[static_cast<size_t>(group)];
    lowest = std::min(lowest, node);
  }
  std::vector<int> nodes;
  for (const int gpu : device_of_rank) {
    const int node = device(topology, gpu).node;
    const int group = group_of_node.at(node);
    nodes.push_back(group == kSeveral ? node : lowest_node[static_cast<size_t>(group)]);
  }
  return nodes;
}

}  // namespace

Placement place_ranks(const Topology& topology, std::vector<int> device_of_rank) {
  Placement placement;
  const PathFinder finder(topology);
  if (device_of_rank.empty()) fail(ErrorCode::kInvalidArgument, "placement: at least one rank is needed");
  const int devices = static_cast<int>(topology.devices.size());
  std::map<int, int> rank_on;  // GPU -> rank
  for (const int index : device_of_rank) {
    if (index < 0 || index >= devices) {
      fail(ErrorCode::kInvalidArgument, "placement: ", topology.name, " has no device ", index);
    }
    const int rank = static_cast<int>(placement.cpu_of_rank.size());
    const Device& it = device(topology, index);
    if (it.kind != DeviceKind::kGpu && it.kind != DeviceKind::kCpu) {
      fail(ErrorCode::kInvalidArgument, "placement: rank ", rank, " cannot run on ", it.name, "; name GPUs or CPUs");
    }
    if (it.kind != device(topology, device_of_rank[0]).kind) {
      fail(ErrorCode::kInvalidArgument, "placement: ranks run either on GPUs or on CPUs, but rank ", rank, " is on ",
           it.name, " and rank 0 on ", device(topology, device_of_rank[0]).name);
    }
    const bool gpu = it.kind == DeviceKind::kGpu;
    const auto [first, is_new] = rank_on.emplace(index, rank);
    if (gpu && !is_new) {
      fail(ErrorCode::kInvalidArgument, "placement: ranks ", first->second, " and ", rank, " are both on ", it.name,
           "; a GPU takes one");
    }
    placement.cpu_of_rank.push_back(gpu ? nearest_cpu(topology, finder, index) : index);
  }
  placement.device_of_rank = std::move(device_of_rank);
  return placement;
}

Placement place_ranks(const Topology& topology, int ranks) {
  std::vector<int> devices = devices_of(topology, DeviceKind::kGpu);
  if (ranks < 1) fail(ErrorCode::kInvalidArgument, "placement: at least one rank is needed, not ", ranks);
  if (!devices.empty()) {
    if (ranks > static_cast<int>(devices.size())) {
      fail(ErrorCode::kInvalidArgument, "placement: ", topology.name, " has ", devices.size(), " GPUs, too few for ",
           ranks, " ranks; use fewer ranks or more nodes");
    }
    devices.resize(static_cast<size_t>(ranks));
    return place_ranks(topology, std::move(devices));
  }
  const std::vector<int> sockets = devices_of(topology, DeviceKind::kCpu);
  if (sockets.empty()) fail(ErrorCode::kInvalidArgument, "placement: ", topology.name, " has neither GPUs nor CPUs");
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(sockets[static_cast<size_t>(rank) * sockets.size() / static_cast<size_t>(ranks)]);
  }
  return place_ranks(topology, std::move(devices));
}

AlgorithmArguments arguments_for(const Topology& topology, const Placement& placement, Collective collective,
                                 GroupRule rule) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = static_cast<int>(placement.device_of_rank.size());
  if (device(topology, placement.device_of_rank[0]).kind == DeviceKind::kCpu) {
    for (const int cpu : placement.device_of_rank) arguments.node_of.push_back(device(topology, cpu).node);
    return arguments;
  }
  arguments.engine = Engine::kSm;
  std::map<int, std::vector<int>> ranks_on;  // each GPU
  std::vector<int> gpus;
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    const int gpu = placement.device_of_rank[static_cast<size_t>(rank)];
    std::vector<int>& ranks = ranks_on[gpu];
    if (ranks.empty()) gpus.push_back(gpu);
    ranks.push_back(rank);
  }
  const std::vector<Group> groups = find_groups(topology, std::move(gpus), rule);
  arguments.node_of = reachable_nodes(topology, placement.device_of_rank, groups);
  for (const Group& group : groups) {
    std::vector<int>& ranks = arguments.groups.emplace_back();
    for (const int gpu : group.gpus) ranks.insert(ranks.end(), ranks_on.at(gpu).begin(), ranks_on.at(gpu).end());
    std::sort(ranks.begin(), ranks.end());
  }
  std::sort(arguments.groups.begin(), arguments.groups.end());
  return arguments;
}

}  // namespace plait
