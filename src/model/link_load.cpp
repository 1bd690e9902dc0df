// Plans on links.
#include "model/link_load.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "model/plan_cost.hpp"
#include "model/routes.hpp"
#include "model/units.hpp"
#include "plan/conditions.hpp"

namespace plait {
namespace {

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

// The link of a CPU socket to its memory, in the direction of writing or of reading; nothing where it has none.
std::optional<DirectedLink> widest_memory_link(const Topology& topology, int cpu, bool writing) {
  std::optional<DirectedLink> widest;
  for (size_t i = 0; i < topology.links.size(); ++i) {
    const Link& link = topology.links[i];
    if (link.kind != LinkKind::kMemory || (link.a != cpu && link.b != cpu)) continue;
    if (widest && topology.links[static_cast<size_t>(widest->link)].gbps >= link.gbps) continue;
    widest = DirectedLink{static_cast<int>(i), (link.a == cpu) == writing};
  }
  return widest;
}

// Makes a path begin or end with a hop more.
void add_hop(const Topology& topology, const DirectedLink& hop, Path& path, bool at_start) {
  const Link& link = topology.links[static_cast<size_t>(hop.link)];
  path.hops.insert(at_start ? path.hops.begin() : path.hops.end(), hop);
  const int start = hop.forward ? link.a : link.b, end = hop.forward ? link.b : link.a;
  path.devices.insert(at_start ? path.devices.begin() : path.devices.end(), at_start ? start : end);
  if (link.gbps >= path.gbps) return;
  path.gbps = link.gbps;
  path.medium = link.kind;
}

}  // namespace

void check_host_reach(const Plan& plan, const Routes& routes, const Endpoint& a, const Endpoint& b) {
  if (!a.host && !b.host) return;
  const Topology& topology = routes.topology();
  const Device& from = topology.devices[static_cast<size_t>(routes.device_of(a))];
  const Device& to = topology.devices[static_cast<size_t>(routes.device_of(b))];
  const bool by_message = plan.node_of[a.rank] != plan.node_of[b.rank];
  if (from.node == to.node || by_message) return;
  fail(ErrorCode::kInvalidArgument, "plan ", plan.algorithm, ": ranks ", a.rank, " and ", b.rank,
       " share host memory, but ", from.name, " and ", to.name, " of ", topology.name,
       " are on different hosts, between which load and store access only GPUs");
}

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

std::vector<Path> memory_paths(const Topology& topology, const PathFinder& finder, int from, int to) {
  std::vector<Path> paths;
  if (from == to) {
    paths.push_back({PathKind::kDirect, {from}, {}, std::numeric_limits<double>::infinity(), LinkKind::kMemory});
  } else {
    paths = carrying_paths(topology, finder, from, to);
  }
  const std::optional<DirectedLink> read = widest_memory_link(topology, from, false);
  const std::optional<DirectedLink> write = widest_memory_link(topology, to, true);
  for (Path& path : paths) {
    if (read) add_hop(topology, *read, path, true);
    if (write) add_hop(topology, *write, path, false);
  }
  if (from == to && !read) paths.clear();
  return paths;
}

double LinkLoad::lower_bound(double message_bytes) const {
  return message_bytes * std::max(busiest_seconds, chain_seconds);
}

LinkLoad link_load(const Plan& plan, const PlanCounts& counts, const Timeline& timeline, Routes& routes) {
  const Topology& topology = routes.topology();
  LinkLoad load;
  load.bytes.resize(topology.links.size());
  if (plan.chunk_count() == 0) return load;
  std::map<std::pair<int, int>, double> flows;
  for (const Traffic& traffic : counts.traffic) {
    check_host_reach(plan, routes, traffic.from, traffic.to);
    const int from = routes.device_of(traffic.from), to = routes.device_of(traffic.to);
    const double bytes = static_cast<double>(traffic.chunks) / chunks_of_size(plan);
    (routes.between(from, to).empty() ? load.local_bytes : flows[{from, to}]) += bytes;
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
  load.chain_seconds = timeline.critical_path({}, std::numeric_limits<double>::infinity()).per_byte;
  return load;
}

LinkLoad link_load(const VerifiedPlan& plan, const Topology& topology, const Placement& placement) {
  Routes routes(topology, placement);
  return PlanModel(plan.plan(), routes).load();
}

}  // namespace plait
