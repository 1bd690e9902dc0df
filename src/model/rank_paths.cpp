// Turns paths between devices into paths between ranks.
#include "model/rank_paths.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "model/link_load.hpp"
#include "topology/paths.hpp"

namespace plait {
namespace {

using Paths = std::vector<Path>;  // that carry equal parts of one path's data

class RankPaths {
 public:
  RankPaths(const Topology& topology, const std::vector<int>& devices)
      : topology_(topology), devices_(devices), finder_(topology) {
    for (size_t rank = 0; rank < devices.size(); ++rank) rank_of_[devices[rank]] = static_cast<int>(rank);
  }

  std::vector<RankPath> find() {
    const int ranks = static_cast<int>(devices_.size());
    for (int from = 0; from < ranks; ++from) {
      for (int d = 1; d < ranks; ++d) add(from, (from + d) % ranks, d == 1);
    }
    for (Found& it : found_) {
      it.path.gbps = gbps_of(it, false);
      it.path.ring_gbps = gbps_of(it, true);
    }
    std::vector<RankPath> paths;
    for (const Found& it : found_) paths.push_back(it.path);
    return paths;
  }

 private:
  struct Found {
    RankPath path;
    Paths over;
  };

  void add(int from, int to, bool neighbours) {
    const int first = devices_[static_cast<size_t>(from)], last = devices_[static_cast<size_t>(to)];
    if (node_of(first) != node_of(last) || !finder_.best(first, last)) return;
    const Paths direct = carrying_paths(topology_, finder_, first, last);
    if (direct[0].kind != PathKind::kDirect) return;
    add({from, to, PathKind::kDirect}, direct, neighbours);
    for (const Path& it : finder_.between(first, last)) {
      const bool apart =
          std::all_of(direct.begin(), direct.end(), [&](const Path& other) { return shared_links(other, it).empty(); });
      if (!apart) continue;
      if (it.kind == PathKind::kHost) {
        add({.from = from, .to = to, .kind = PathKind::kHost, .across_sockets = cpus_on(it) > 1}, {it}, neighbours);
      }
      const auto via = rank_of_.find(it.via);
      if (it.kind != PathKind::kRelay || via == rank_of_.end()) continue;
      add({from, to, PathKind::kRelay, via->second}, {it}, false);  // algorithms count what crosses those links
    }
  }

  void add(const RankPath& path, const Paths& over, bool neighbours) {
    found_.push_back({path, over});
    if (!neighbours) return;
    for (const Path& it : over) {
      for (const DirectedLink& hop : it.hops) crossings_[{path.kind, hop}] += 1.0 / static_cast<double>(over.size());
    }
  }

  double gbps_of(const Found& found, bool in_ring) const {
    const double part = 1.0 / static_cast<double>(found.over.size());
    double least = std::numeric_limits<double>::infinity();
    for (const Path& it : found.over) {
      for (const DirectedLink& hop : it.hops) {
        const auto crossed = crossings_.find({found.path.kind, hop});
        const bool shares = in_ring && crossed != crossings_.end();
        const double bytes = shares ? std::max(part, crossed->second) : part;
        least = std::min(least, topology_.links[static_cast<size_t>(hop.link)].gbps / bytes);
      }
    }
    return least;
  }

  int64_t cpus_on(const Path& path) const {
    return std::count_if(path.devices.begin(), path.devices.end(), [&](int device) {
      return topology_.devices[static_cast<size_t>(device)].kind == DeviceKind::kCpu;
    });
  }
  int node_of(int device) const { return topology_.devices[static_cast<size_t>(device)].node; }

  const Topology& topology_;
  const std::vector<int>& devices_;
  const PathFinder finder_;
  std::map<int, int> rank_of_;
  std::vector<Found> found_;
  std::map<std::pair<PathKind, DirectedLink>, double> crossings_;
};

}  // namespace

std::optional<std::vector<RankPath>> paths_between_ranks(const Topology& topology, const Placement& placement) {
  const std::vector<int>& devices = placement.device_of_rank;
  const std::set<int> different(devices.begin(), devices.end());
  const bool on_gpus = topology.devices[static_cast<size_t>(devices[0])].kind == DeviceKind::kGpu;
  if (!on_gpus || different.size() < devices.size() || devices.size() > static_cast<size_t>(kMostLinkedRanks)) {
    return std::nullopt;
  }
  return RankPaths(topology, devices).find();
}

}  // namespace plait
