// Ranks on devices.
#include "model/placement.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "model/rank_links.hpp"
#include "model/rank_paths.hpp"
#include "topology/paths.hpp"

namespace plait {
namespace {

const Device& device(const Topology& topology, int index) { return topology.devices[static_cast<size_t>(index)]; }

// The CPU next to each GPU.
class NearestCpus {
 public:
  explicit NearestCpus(const Topology& topology) : topology_(topology), finder_(topology) {
    for (const int cpu : devices_of(topology, DeviceKind::kCpu))
      cpus_of_node_[device(topology, cpu).node].push_back(cpu);
  }

  int of(int gpu) {
    const auto [place, is_new] = found_.try_emplace(gpu, -1);
    if (is_new) place->second = find(gpu);
    return place->second;
  }

 private:
  // The CPU of the GPU's node that it reaches directly with the most bandwidth over the fewest links, else any that it
  // reaches.
  int find(int gpu) const {
    std::optional<Path> best;
    const auto better = [](const Path& a, const Path& b) {
      if ((a.kind == PathKind::kDirect) != (b.kind == PathKind::kDirect)) return a.kind == PathKind::kDirect;
      if (a.hops.size() != b.hops.size()) return a.hops.size() < b.hops.size();
      return a.gbps > b.gbps;
    };
    const auto cpus = cpus_of_node_.find(device(topology_, gpu).node);
    for (const int cpu : cpus == cpus_of_node_.end() ? std::vector<int>() : cpus->second) {
      std::optional<Path> path = finder_.best(gpu, cpu);
      if (path && (!best || better(*path, *best))) best = std::move(path);
    }
    if (!best) {
      fail(ErrorCode::kInvalidArgument, "placement: ", device(topology_, gpu).name, " of ", topology_.name,
           " reaches no CPU, so it has no host memory next to it");
    }
    return best->devices.back();
  }

  const Topology& topology_;
  const PathFinder finder_;
  std::map<int, std::vector<int>> cpus_of_node_;
  std::map<int, int> found_;  // by GPU
};

// The first GPUs of each node, equally many of each; all GPUs where there are as many ranks.
std::vector<int> spread_over_nodes(const Topology& topology, std::vector<int> gpus, int ranks) {
  const int all = static_cast<int>(gpus.size());
  std::map<int, std::vector<int>> gpus_of_node;
  for (const int gpu : gpus) gpus_of_node[device(topology, gpu).node].push_back(gpu);
  const int nodes = static_cast<int>(gpus_of_node.size());
  if (ranks == all) return gpus;
  int most = all;  // that every node has
  for (const auto& [node, of_node] : gpus_of_node) most = std::min(most, static_cast<int>(of_node.size()));
  const int each = ranks / nodes;
  if (ranks % nodes != 0 || each > most) {
    std::string fitting;
    const auto add = [&](int count) { fitting += join(fitting.empty() ? "" : ", ", count); };
    if (each > 0) add(std::min(each, most) * nodes);
    if (each < most) add((each + 1) * nodes);
    if (most * nodes < all) add(all);
    fail(ErrorCode::kInvalidArgument, "placement: ", counted(ranks, "rank"), " cannot be spread evenly over the ",
         counted(nodes, "node"), " of ", topology.name, "; these numbers near it can: ", fitting,
         ". Or choose GPUs, one for each rank (--gpus)");
  }
  std::vector<int> chosen;
  for (const auto& [node, of_node] : gpus_of_node) chosen.insert(chosen.end(), of_node.begin(), of_node.begin() + each);
  return chosen;
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
  NearestCpus nearest_cpus(topology);
  if (device_of_rank.empty()) fail(ErrorCode::kInvalidArgument, "placement: at least one rank is needed");
  const int devices = static_cast<int>(topology.devices.size());
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
    placement.cpu_of_rank.push_back(it.kind == DeviceKind::kGpu ? nearest_cpus.of(index) : index);
  }
  placement.device_of_rank = std::move(device_of_rank);
  return placement;
}

Placement place_ranks(const Topology& topology, int ranks) {
  std::vector<int> devices = devices_of(topology, DeviceKind::kGpu);
  if (ranks < 1) fail(ErrorCode::kInvalidArgument, "placement: at least one rank is needed, not ", ranks);
  if (!devices.empty()) {
    if (ranks > static_cast<int>(devices.size())) {
      fail(ErrorCode::kInvalidArgument, "placement: ", topology.name, " has ", counted(devices.size(), "GPU"),
           ", too few for ", counted(ranks, "rank"), "; use fewer ranks or more nodes");
    }
    return place_ranks(topology, spread_over_nodes(topology, std::move(devices), ranks));
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
  arguments.links = links_between_ranks(topology, placement);
  arguments.paths = paths_between_ranks(topology, placement);
  return arguments;
}

}  // namespace plait
