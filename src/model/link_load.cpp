// Plans on links.
#include "model/link_load.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "model/plan_cost.hpp"
#include "model/routes.hpp"
#include "plan/conditions.hpp"

namespace plait {
namespace {

constexpr double kBytesPerGb = 1e9;

void find_busiest(const Topology& topology, LinkLoad& load) {
  for (size_t link = 0; link < topology.links.size(); ++link) {
    for (const bool forward : {true, false}) {
      const double seconds = load.bytes[link][forward ? 0 : 1] / (topology.links[link].gbps * kBytesPerGb);
      // A little slack, so that of equals the first is named whatever the rounding.
      if (seconds <= load.busiest_seconds * (1 + 1e-9)) continue;
      load.busiest_seconds = seconds;
      load.busiest = DirectedLink{static_cast<int>(link), forward};
    }
  }
}

}  // namespace

std::vector<Path> carrying_paths(const Topology& topology, const PathFinder& finder, int from, int to) {
  std::vector<Path> paths = finder.between(from, to);
  if (paths.empty()) {
    fail(ErrorCode::kInvalidArgument, "no path leads from ", topology.devices[static_cast<size_t>(from)].name, " to ",
         topology.devices[static_cast<size_t>(to)].name, " of ", topology.name);
  }
  // The detours of host and relay paths take links from others, so only one is used.
  const bool together = paths[0].kind == PathKind::kDirect || paths[0].kind == PathKind::kNet;
  size_t count = 1;
  while (together && count < paths.size() && paths[count].kind == paths[0].kind && paths[count].gbps == paths[0].gbps &&
         paths[count].medium == paths[0].medium) {
    ++count;
  }
  paths.erase(paths.begin() + static_cast<std::ptrdiff_t>(count), paths.end());
  return paths;
}

double LinkLoad::lower_bound(double message_bytes) const {
  return message_bytes * std::max(busiest_seconds, chain_seconds);
}

LinkLoad link_load(const VerifiedPlan& verified, const Topology& topology, const Placement& placement) {
  const Plan& plan = verified.plan();
  if (placement.device_of_rank.size() != plan.ranks.size()) {
    fail(ErrorCode::kInvalidArgument, "link load: ", placement.device_of_rank.size(), " ranks are placed, but plan ",
         plan.algorithm, " has ", plan.ranks.size());
  }
  LinkLoad load;
  load.bytes.resize(topology.links.size());
  if (plan.chunk_count() == 0) return load;
  Routes routes(topology, placement);
  std::map<std::pair<int, int>, double> flows;
  for (const Traffic& traffic : verified.report().traffic) {
    const int from = routes.device_of(traffic.from), to = routes.device_of(traffic.to);
    const double bytes = static_cast<double>(traffic.chunks) / chunks_of_size(plan);
    (from == to ? load.local_bytes : flows[{from, to}]) += bytes;
  }
  for (const auto& [ends, bytes] : flows) {
    const std::vector<Path>& paths = routes.between(ends.first, ends.second);
    for (const Path& path : paths) {
      for (const DirectedLink& hop : path.hops) {
        load.bytes[static_cast<size_t>(hop.link)][hop.forward ? 0 : 1] += bytes / static_cast<double>(paths.size());
      }
    }
    load.flows.push_back({ends.first, ends.second, bytes, paths});
  }
  find_busiest(topology, load);
  load.chain_seconds = critical_path(verified, routes, {}, std::numeric_limits<double>::infinity()).per_byte;
  return load;
}

}  // namespace plait
