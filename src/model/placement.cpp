// Ranks on devices.
#include "model/placement.hpp"

#include <algorithm>
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
  std::map<int, int> rank_of;
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    const int index = placement.device_of_rank[static_cast<size_t>(rank)];
    arguments.node_of.push_back(device(topology, index).node);
    rank_of[index] = rank;
  }
  if (device(topology, placement.device_of_rank[0]).kind == DeviceKind::kCpu) return arguments;
  arguments.engine = Engine::kSm;
  for (const Group& group : find_groups(topology, placement.device_of_rank, rule)) {
    std::vector<int>& ranks = arguments.groups.emplace_back();
    for (const int gpu : group.gpus) ranks.push_back(rank_of.at(gpu));
    std::sort(ranks.begin(), ranks.end());
  }
  std::sort(arguments.groups.begin(), arguments.groups.end());
  return arguments;
}

}  // namespace plait
