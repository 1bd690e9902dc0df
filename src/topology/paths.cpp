#include "topology/paths.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.hpp"

namespace plait {
namespace {

bool has_memory(const Device& device) { return device.kind == DeviceKind::kGpu || device.kind == DeviceKind::kCpu; }

// Devices that data may pass inside a node: never another GPU or a NIC.
bool passes_bus(const Device& device) {
  return device.kind == DeviceKind::kPcieSwitch || device.kind == DeviceKind::kCpu;
}

// Between NICs of different nodes.
bool passes_network(const Device& device) { return device.kind == DeviceKind::kNetSwitch; }

}  // namespace

const char* name(PathKind kind) {
  constexpr const char* kNames[] = {"direct", "host", "relay", "net"};
  return kNames[static_cast<size_t>(kind)];
}

PathFinder::PathFinder(const Topology& topology) : topology_(topology), edges_(topology.devices.size()) {
  for (size_t i = 0; i < topology.links.size(); ++i) {
    const Link& link = topology.links[i];
    const int index = static_cast<int>(i);
    edges_[static_cast<size_t>(link.a)].push_back({link.b, {index, true}});
    edges_[static_cast<size_t>(link.b)].push_back({link.a, {index, false}});
  }
  for (auto& edges : edges_) {
    std::sort(edges.begin(), edges.end(),
              [](const Edge& x, const Edge& y) { return std::tie(x.neighbour, x.hop) < std::tie(y.neighbour, y.hop); });
    std::copy_if(edges.begin(), edges.end(), std::back_inserter(onward_.emplace_back()), [&](const Edge& it) {
      return passes_bus(device(it.neighbour)) || passes_network(device(it.neighbour));
    });
  }
}

// Returns the routes with the fewest hops to the targets nearest to `from`, one per target, ordered by target. Among
// routes of equal length to one target the widest counts, then the one through lower devices. `edges_at` applies a
// function to the edges of a device that may be taken.
template <class EdgesAt, class IsTarget, class MayPass>
std::vector<PathFinder::Route> PathFinder::nearest(int from, EdgesAt edges_at, IsTarget is_target,
                                                   MayPass may_pass) const {
  struct Reached {
    int depth;
    double gbps;
    int previous;
    DirectedLink hop;
  };
  std::map<int, Reached> reached = {{from, {0, std::numeric_limits<double>::infinity(), -1, {}}}};
  std::vector<int> frontier = {from};
  std::vector<int> targets;
  for (int depth = 1; !frontier.empty() && targets.empty(); ++depth) {
    std::vector<int> next;
    for (const int at : frontier) {
      const double so_far = reached.at(at).gbps;
      edges_at(at, [&](const Edge& edge) {
        const bool target = is_target(edge.neighbour);
        if (!target && !may_pass(device(edge.neighbour))) return;
        const double gbps = std::min(so_far, link(edge.hop).gbps);
        const auto [place, is_new] = reached.emplace(edge.neighbour, Reached{depth, gbps, at, edge.hop});
        if (is_new) (target ? targets : next).push_back(edge.neighbour);
        if (!is_new && place->second.depth == depth && gbps > place->second.gbps)
          place->second = {depth, gbps, at, edge.hop};
      });
    }
    std::sort(next.begin(), next.end());
    frontier = std::move(next);
  }
  std::sort(targets.begin(), targets.end());
  std::vector<Route> routes;
  for (const int target : targets) {
    Route route{{target}, {}};
    for (int at = target; at != from; at = reached.at(at).previous) {
      route.hops.push_back(reached.at(at).hop);
      route.devices.push_back(reached.at(at).previous);
    }
    std::reverse(route.hops.begin(), route.hops.end());
    std::reverse(route.devices.begin(), route.devices.end());
    routes.push_back(std::move(route));
  }
  return routes;
}

template <class IsTarget>
std::vector<PathFinder::Route> PathFinder::nearest_on_bus(int from, IsTarget is_target) const {
  const auto all_edges = [&](int at, const auto& visit) {
    for (const Edge& edge : edges_[static_cast<size_t>(at)]) visit(edge);
  };
  return nearest(from, all_edges, is_target, passes_bus);
}

// Finds a route to one device. At a switch it looks only at the edges that lead there, or onward.
template <class MayPass>
std::optional<PathFinder::Route> PathFinder::route_to(int from, int to, MayPass may_pass) const {
  const auto useful_edges = [&](int at, const auto& visit) {
    const auto& edges = edges_[static_cast<size_t>(at)];
    const auto before = [](const Edge& edge, int neighbour) { return edge.neighbour < neighbour; };
    for (auto it = std::lower_bound(edges.begin(), edges.end(), to, before); it != edges.end() && it->neighbour == to;
         ++it) {
      visit(*it);
    }
    for (const Edge& edge : onward_[static_cast<size_t>(at)]) {
      if (edge.neighbour != to) visit(edge);
    }
  };
  std::vector<Route> routes = nearest(from, useful_edges, [&](int at) { return at == to; }, may_pass);
  if (routes.empty()) return std::nullopt;
  return std::move(routes.front());
}

// Finds a route from one device of a node to another over PCIe, links between sockets, and NVLinks that end at a CPU.
std::optional<PathFinder::Route> PathFinder::bus_route(int from, int to) const {
  return route_to(from, to, passes_bus);
}

const std::vector<PathFinder::Route>& PathFinder::nearest_nics(int from) const {
  const auto [place, is_new] = nics_.try_emplace(from);
  if (!is_new) return place->second;
  const auto leads_on = [&](const Edge& edge) { return link(edge.hop).kind == LinkKind::kNetwork; };
  place->second = nearest_on_bus(from, [&](int at) {
    const std::vector<Edge>& edges = edges_[static_cast<size_t>(at)];
    return device(at).kind == DeviceKind::kNic && std::any_of(edges.begin(), edges.end(), leads_on);
  });
  return place->second;
}

Path PathFinder::make_path(PathKind kind, std::vector<Route> legs, int via) const {
  Path path{kind, {legs.front().devices.front()}, {}, std::numeric_limits<double>::infinity(), LinkKind::kPcie, via};
  for (const Route& leg : legs) {
    path.devices.insert(path.devices.end(), leg.devices.begin() + 1, leg.devices.end());
    path.hops.insert(path.hops.end(), leg.hops.begin(), leg.hops.end());
  }
  for (const DirectedLink& hop : path.hops) {
    if (link(hop).gbps >= path.gbps) continue;
    path.gbps = link(hop).gbps;
    path.medium = link(hop).kind;
  }
  return path;
}

// Adds one link, or one switch to which both GPUs have links of the same kind.
void PathFinder::add_gpu_direct(int from, int to, std::vector<Path>& paths) const {
  for (const Edge& out : edges_[static_cast<size_t>(from)]) {
    if (out.neighbour == to) {
      paths.push_back(make_path(PathKind::kDirect, {{{from, to}, {out.hop}}}));
      continue;
    }
    const DeviceKind kind = device(out.neighbour).kind;
    if (kind != DeviceKind::kNvSwitch && kind != DeviceKind::kPcieSwitch) continue;
    for (const Edge& in : edges_[static_cast<size_t>(out.neighbour)]) {
      if (in.neighbour != to) continue;
      paths.push_back(make_path(PathKind::kDirect, {{{from, out.neighbour, to}, {out.hop, in.hop}}}));
    }
  }
}

void PathFinder::add_host(int from, int to, std::vector<Path>& paths) const {
  const auto is_cpu = [&](int at) { return device(at).kind == DeviceKind::kCpu; };
  const bool staged = device(from).kind == DeviceKind::kGpu && device(to).kind == DeviceKind::kGpu;
  if (staged) {
    std::vector<Route> up = nearest_on_bus(from, is_cpu);
    if (up.empty()) return;
    const int cpu = up.front().devices.back();
    std::optional<Route> down = bus_route(cpu, to);
    if (down) paths.push_back(make_path(PathKind::kHost, {std::move(up.front()), std::move(*down)}, cpu));
    return;
  }
  const std::optional<Route> route = bus_route(from, to);
  if (!route) return;
  const auto crosses_sockets = [&](const DirectedLink& hop) { return link(hop).kind == LinkKind::kSocket; };
  const auto crossings = std::count_if(route->hops.begin(), route->hops.end(), crosses_sockets);
  const bool direct = crossings == 0 || route->hops.size() == 1;
  paths.push_back(make_path(direct ? PathKind::kDirect : PathKind::kHost, {*route}));
}

void PathFinder::add_relays(int from, int to, std::vector<Path>& paths) const {
  for (const Edge& out : edges_[static_cast<size_t>(from)]) {
    if (out.neighbour == to || device(out.neighbour).kind != DeviceKind::kGpu) continue;
    if (!joins_gpus(link(out.hop).kind)) continue;
    for (const Edge& in : edges_[static_cast<size_t>(out.neighbour)]) {
      if (in.neighbour != to || !joins_gpus(link(in.hop).kind)) continue;
      paths.push_back(make_path(PathKind::kRelay, {{{from, out.neighbour, to}, {out.hop, in.hop}}}, out.neighbour));
    }
  }
}

// NICs that are equally near are paired in order, so that each is used.
void PathFinder::add_net(int from, int to, std::vector<Path>& paths) const {
  const std::vector<Route>& out = nearest_nics(from);
  const std::vector<Route>& in = nearest_nics(to);
  if (out.empty() || in.empty()) return;
  for (size_t i = 0; i < std::max(out.size(), in.size()); ++i) {
    const Route& first = out[i % out.size()];
    Route last = in[i % in.size()];
    std::optional<Route> between = route_to(first.devices.back(), last.devices.back(), passes_network);
    if (!between) continue;
    // The second half was found from the destination outwards.
    std::reverse(last.devices.begin(), last.devices.end());
    std::reverse(last.hops.begin(), last.hops.end());
    for (DirectedLink& hop : last.hops) hop.forward = !hop.forward;
    paths.push_back(make_path(PathKind::kNet, {first, std::move(*between), std::move(last)}));
  }
}

std::vector<Path> PathFinder::between(int from, int to) const {
  const int count = static_cast<int>(topology_.devices.size());
  for (const int end : {from, to}) {
    if (end < 0 || end >= count)
      fail(ErrorCode::kInvalidArgument, "paths: topology ", topology_.name, " has no device ", end);
    if (device(end).kind == DeviceKind::kMemory) {
      fail(ErrorCode::kInvalidArgument, "paths: ", device(end).name, " belongs to a CPU; name that CPU");
    }
    if (!has_memory(device(end))) {
      fail(ErrorCode::kInvalidArgument, "paths: ", device(end).name, " has no memory; name GPUs or CPUs");
    }
  }
  if (from == to) fail(ErrorCode::kInvalidArgument, "paths: both ends are ", device(from).name);
  std::vector<Path> paths;
  const bool gpus = device(from).kind == DeviceKind::kGpu && device(to).kind == DeviceKind::kGpu;
  if (gpus) add_gpu_direct(from, to, paths);
  if (device(from).node != device(to).node) {
    add_net(from, to, paths);
  } else {
    if (gpus) add_relays(from, to, paths);
    add_host(from, to, paths);
  }
  std::stable_sort(paths.begin(), paths.end(), [](const Path& a, const Path& b) {
    const auto key = [](const Path& p) { return std::tuple(p.kind != PathKind::kDirect, -p.gbps, p.kind); };
    return key(a) < key(b);
  });
  return paths;
}

std::optional<Path> PathFinder::best(int from, int to) const {
  std::vector<Path> paths = between(from, to);
  if (paths.empty()) return std::nullopt;
  return std::move(paths.front());
}

std::vector<DirectedLink> shared_links(const Path& a, const Path& b) {
  std::vector<DirectedLink> first = a.hops, second = b.hops, shared;
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(shared));
  return shared;
}

std::string to_text(const Topology& topology, const Path& path) {
  std::string text;
  for (const int index : path.devices) {
    text += (text.empty() ? "" : " -> ") + topology.devices[static_cast<size_t>(index)].name;
  }
  return join(text, ", ", name(path.kind), ", ", path.gbps, " GB/s");
}

}  // namespace plait
