// Routes and resources of programs.
#include "model/simulator/program_builder.hpp"

#include <algorithm>
#include <vector>

namespace plait {
namespace {

// Whether a NIC's ports together send less than its network links could carry.
bool limits_its_links(const Topology& topology, int nic) {
  const double port_gbps = topology.devices[static_cast<size_t>(nic)].port_gbps;
  double links_gbps = 0;
  for (const Link& link : topology.links) {
    if (link.kind == LinkKind::kNetwork && (link.a == nic || link.b == nic)) links_gbps += link.gbps;
  }
  return port_gbps > 0 && port_gbps < links_gbps;
}

bool is_of_rank(SimulatedResource::Kind kind) {
  return kind == SimulatedResource::Kind::kMemory || kind == SimulatedResource::Kind::kCore;
}

}  // namespace

void ProgramBuilder::begin_work(bool combines) {
  work_.flows.clear();
  work_.combines = combines;
}

void ProgramBuilder::add_flow(uint32_t route, int64_t chunks) {
  if (route == kNoRoute || chunks == 0) return;
  const auto same =
      std::find_if(work_.flows.begin(), work_.flows.end(), [&](const auto& it) { return it.route == route; });
  if (same != work_.flows.end()) {
    same->chunks += static_cast<uint32_t>(chunks);
  } else {
    work_.flows.push_back({route, static_cast<uint32_t>(chunks)});
  }
}

uint32_t ProgramBuilder::end_work() {
  const auto [found, is_new] = works_.try_emplace(work_, static_cast<uint32_t>(program_.works.size()));
  if (is_new) program_.works.push_back(work_);
  return found->second;
}

uint8_t ProgramBuilder::link_kind_between(int from_rank, int to_rank) {
  const int from = routes_.device_of({from_rank}), to = routes_.device_of({to_rank});
  if (from == to) return SimulatedStep::kLocal;
  const std::vector<Path>& paths = routes_.between(from, to);
  return paths.empty() ? SimulatedStep::kLocal : static_cast<uint8_t>(paths.front().medium);
}

uint32_t ProgramBuilder::route_between(int from, int to, Mover mover) {
  const auto [found, is_new] = device_routes_.try_emplace({from, to, mover}, kNoRoute);
  if (!is_new) return found->second;
  const std::vector<Path>& paths = routes_.between(from, to);
  if (paths.empty()) return kNoRoute;
  SimulatedRoute route;
  route.from = from;
  route.to = to;
  route.mover = mover;
  route.medium = paths.front().medium;
  std::map<std::pair<SimulatedResource, bool>, double> shares;  // each path carries an equal part
  for (const Path& path : paths) add_path(path, 1 / static_cast<double>(paths.size()), mover, shares);
  for (const auto& [resource, share] : shares) {
    route.uses.push_back(use_of(resource.first, share, resource.second));
  }
  found->second = static_cast<uint32_t>(program_.routes.size());
  program_.routes.push_back(std::move(route));
  return found->second;
}

void ProgramBuilder::add_path(const Path& path, double share, Mover mover,
                              std::map<std::pair<SimulatedResource, bool>, double>& shares) {
  const Topology& topology = routes_.topology();
  const auto add = [&](SimulatedResource::Kind kind, int index, bool forward, bool is_back) {
    shares[{{kind, index, forward}, is_back}] += share;
  };
  const bool sends_requests = mover == Mover::kLoads || mover == Mover::kSpreadLoads || mover == Mover::kCopyEngine;
  for (size_t i = 0; i < path.hops.size(); ++i) {
    add(SimulatedResource::Kind::kLink, path.hops[i].link, path.hops[i].forward, false);
    if (sends_requests) add(SimulatedResource::Kind::kLink, path.hops[i].link, !path.hops[i].forward, true);
    if (topology.links[static_cast<size_t>(path.hops[i].link)].kind != LinkKind::kNetwork) continue;
    if (is_limiting_nic(path.devices[i])) add(SimulatedResource::Kind::kNicOut, path.devices[i], true, false);
    if (is_limiting_nic(path.devices[i + 1])) add(SimulatedResource::Kind::kNicIn, path.devices[i + 1], true, false);
  }
}

bool ProgramBuilder::is_limiting_nic(int device) {
  if (routes_.topology().devices[static_cast<size_t>(device)].kind != DeviceKind::kNic) return false;
  const auto [found, is_new] = limiting_nics_.try_emplace(device, false);
  if (is_new) found->second = limits_its_links(routes_.topology(), device);
  return found->second;
}

uint32_t ProgramBuilder::pace_route(uint32_t pace) {
  const auto [found, is_new] = pace_routes_.try_emplace(pace, static_cast<uint32_t>(program_.routes.size()));
  if (is_new) {
    SimulatedRoute& route = program_.routes.emplace_back();
    route.from = route.to = SimulatedRoute::kPaced;
    route.uses.push_back({pace, 1});
  }
  return found->second;
}

uint32_t ProgramBuilder::memory_route(int rank, uint32_t ctas) {
  const auto [found, is_new] = memory_routes_.try_emplace({rank, ctas}, static_cast<uint32_t>(program_.routes.size()));
  if (is_new) {
    SimulatedRoute& route = program_.routes.emplace_back();
    route.uses.push_back(use_of({SimulatedResource::Kind::kMemory, rank}, 1));
    if (ctas != kNoRoute) route.uses.push_back({ctas, 1});
  }
  return found->second;
}

uint32_t ProgramBuilder::core_route(int rank) {
  const auto [found, is_new] = core_routes_.try_emplace(rank, static_cast<uint32_t>(program_.routes.size()));
  if (is_new) {
    SimulatedRoute& route = program_.routes.emplace_back();
    route.from = route.to = SimulatedRoute::kByCore;
    route.uses.push_back(use_of({SimulatedResource::Kind::kCore, rank}, 1));
  }
  return found->second;
}

// A folded plan has a flow alike for each shift, and they are spread evenly over all that shifts take the resource to.
SimulatedRoute::Use ProgramBuilder::use_of(SimulatedResource resource, double share, bool is_back) {
  if (shifts_ == nullptr) return {numbered(resource), share, is_back, 1};
  int orbit = shifts_->shifts();
  if (resource.kind == SimulatedResource::Kind::kLink) {
    const MachineSymmetry::LinkOrbit links = symmetry_->orbit({resource.index, resource.forward});
    resource.index = links.first.link;
    resource.forward = links.first.forward;
    orbit = links.size;
  } else if (is_of_rank(resource.kind)) {
    resource.index = shifts_->representative(resource.index);
  } else {
    resource.index = symmetry_->representative(resource.index);
  }
  return {numbered(resource), share, is_back, static_cast<uint32_t>(shifts_->shifts() / orbit)};
}

uint32_t ProgramBuilder::numbered(const SimulatedResource& resource) {
  const auto [found, is_new] = resources_.try_emplace(resource, static_cast<uint32_t>(program_.resources.size()));
  if (is_new) program_.resources.push_back(resource);
  return found->second;
}

}  // namespace plait
