// Plans become programs.
#include "model/simulator/program.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "model/link_load.hpp"
#include "plan/conditions.hpp"
#include "plan/traffic.hpp"

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

class Compiler {
 public:
  Compiler(const Plan& plan, const Pairing& pairing, Routes& routes)
      : plan_(plan), pairing_(pairing), routes_(routes) {}
  Compiler(const FoldedPlan& folded, const MachineSymmetry& symmetry, Routes& routes)
      : plan_(folded.plan),
        pairing_(folded.fold.pairing()),
        routes_(routes),
        shifts_(&folded.fold.shifts()),
        symmetry_(&symmetry) {}

  SimulatorProgram compile() {
    program_.chunks_of_size = std::max(1, chunks_of_size(plan_));
    number_signals();
    for (int rank = 0; rank < plan_.rank_count(); ++rank) {
      if (representative(rank) != rank) continue;
      const auto& queues = plan_.ranks[static_cast<size_t>(rank)].queues;
      for (int queue = 0; queue < static_cast<int>(queues.size()); ++queue) add_queue({rank, queue, 0});
    }
    return std::move(program_);
  }

 private:
  void number_signals() {
    size_t operations = 0;
    for (const RankPlan& rank : plan_.ranks) {
      first_signal_.push_back(program_.signals);
      first_message_.push_back(program_.signals + static_cast<uint32_t>(rank.signals));
      program_.signals += static_cast<uint32_t>(rank.signals) + static_cast<uint32_t>(rank.messages);
      for (const Queue& queue : rank.queues) operations += queue.operations.size();
      operations += static_cast<size_t>(rank.messages);  // which are two steps where they are received
    }
    program_.steps.reserve(operations);
  }

  void add_queue(OperationId id) {
    SimulatedQueue queue{id.rank, id.queue, program_.steps.size(), 0};
    const auto& operations = plan_.ranks[static_cast<size_t>(id.rank)].queues[static_cast<size_t>(id.queue)].operations;
    for (; id.operation < static_cast<int>(operations.size()); ++id.operation) {
      add(id, operations[static_cast<size_t>(id.operation)]);
    }
    queue.end = program_.steps.size();
    program_.queues.push_back(queue);
  }

  void add(const OperationId& id, const Operation& operation) {
    switch (operation.kind) {
      case OpKind::kSignal:
        return tell(first_signal_, operation);
      case OpKind::kSend:
        return tell(first_message_, operation);
      case OpKind::kWait:
        return hear(first_signal_, id.rank, operation);
      case OpKind::kReceive:
        hear(first_message_, id.rank, operation);
        return work(id, operation, true);
      case OpKind::kReduce:
        return work(id, operation, false);
    }
  }

  void tell(const std::vector<uint32_t>& first, const Operation& operation) {
    SimulatedStep& step = program_.steps.emplace_back();
    step.kind = SimulatedStep::Kind::kTell;
    const int hearer = representative(operation.peer_rank);
    step.index = first[static_cast<size_t>(hearer)] + static_cast<uint32_t>(operation.number);
  }

  void hear(const std::vector<uint32_t>& first, int rank, const Operation& operation) {
    SimulatedStep& step = program_.steps.emplace_back();
    step.kind = SimulatedStep::Kind::kHear;
    step.index = first[static_cast<size_t>(rank)] + static_cast<uint32_t>(operation.number);
    step.between_ranks = operation.peer_rank != rank;
    const int from = routes_.device_of({operation.peer_rank}), to = routes_.device_of({rank});
    if (from == to) return;
    const std::vector<Path>& paths = routes_.between(from, to);
    if (!paths.empty()) step.link_kind = static_cast<uint8_t>(paths.front().medium);
  }

  void work(const OperationId& id, const Operation& operation, bool continues) {
    SimulatedStep step;
    step.continues = continues;
    work_.flows.clear();
    work_.combines = operation.sources.size() > 1;
    if (operation.chunks > 0) {
      find_transfers(id, operation);
      for (const Transfer& it : transfers_) {
        check_host_reach(plan_, routes_, it.from, it.to);
        add_flow(route_between(routes_.device_of(it.from), routes_.device_of(it.to)), operation.chunks);
      }
      const size_t places = operation.sources.size() + operation.destinations.size();
      add_flow(memory_route(id.rank), static_cast<int64_t>(places) * operation.chunks);
      if (continues) add_flow(memory_route(operation.peer_rank), operation.chunks);  // which the sender reads
    }
    step.index = numbered(work_);
    program_.steps.push_back(step);
  }

  void find_transfers(const OperationId& id, const Operation& operation) {
    if (shifts_ == nullptr || operation.kind != OpKind::kReceive) {
      return plait::find_transfers(plan_, pairing_, id, transfers_);
    }
    // The pair names the rank that stands for the sender.
    const auto& pairs = pairing_.messages[static_cast<size_t>(id.rank)];
    Place source = operation_at(plan_, pairs[static_cast<size_t>(operation.number)].from).sources[0];
    source.rank = shifts_->shifted(source.rank, operation.peer_rank);
    transfers_.clear();
    const Transfer crossing{endpoint_of(source), endpoint_of(operation.destinations[0])};
    if (crossing.from != crossing.to) transfers_.push_back(crossing);
  }

  // What crosses between the same devices goes together.
  void add_flow(uint32_t route, int64_t chunks) {
    if (route == kNoRoute) return;
    const auto same =
        std::find_if(work_.flows.begin(), work_.flows.end(), [&](const auto& it) { return it.route == route; });
    if (same != work_.flows.end()) {
      same->chunks += static_cast<uint32_t>(chunks);
    } else {
      work_.flows.push_back({route, static_cast<uint32_t>(chunks)});
    }
  }

  // Most operations of a queue move what one before them moved.
  uint32_t numbered(const SimulatedWork& work) {
    const auto [found, is_new] = works_.try_emplace(work, static_cast<uint32_t>(program_.works.size()));
    if (is_new) program_.works.push_back(work);
    return found->second;
  }

  uint32_t route_between(int from, int to) {
    const auto [found, is_new] = device_routes_.try_emplace({from, to}, kNoRoute);
    if (!is_new) return found->second;
    const std::vector<Path>& paths = routes_.between(from, to);
    if (paths.empty()) return kNoRoute;
    SimulatedRoute route;
    route.from = from;
    route.to = to;
    route.medium = paths.front().medium;
    std::map<SimulatedResource, double> shares;  // each path carries an equal part
    for (const Path& path : paths) add_path(path, 1 / static_cast<double>(paths.size()), shares);
    for (const auto& [resource, share] : shares) route.uses.push_back(use_of(resource, share));
    found->second = static_cast<uint32_t>(program_.routes.size());
    program_.routes.push_back(std::move(route));
    return found->second;
  }

  void add_path(const Path& path, double share, std::map<SimulatedResource, double>& shares) {
    const Topology& topology = routes_.topology();
    for (size_t i = 0; i < path.hops.size(); ++i) {
      shares[{SimulatedResource::Kind::kLink, path.hops[i].link, path.hops[i].forward}] += share;
      if (topology.links[static_cast<size_t>(path.hops[i].link)].kind != LinkKind::kNetwork) continue;
      if (is_limiting_nic(path.devices[i])) shares[{SimulatedResource::Kind::kNicOut, path.devices[i]}] += share;
      if (is_limiting_nic(path.devices[i + 1])) shares[{SimulatedResource::Kind::kNicIn, path.devices[i + 1]}] += share;
    }
  }

  bool is_limiting_nic(int device) {
    if (routes_.topology().devices[static_cast<size_t>(device)].kind != DeviceKind::kNic) return false;
    const auto [found, is_new] = limiting_nics_.try_emplace(device, false);
    if (is_new) found->second = limits_its_links(routes_.topology(), device);
    return found->second;
  }

  uint32_t memory_route(int rank) {
    const auto [found, is_new] = memory_routes_.try_emplace(rank, static_cast<uint32_t>(program_.routes.size()));
    if (is_new) {
      SimulatedRoute& route = program_.routes.emplace_back();
      route.uses.push_back(use_of({SimulatedResource::Kind::kMemory, rank}, 1));
    }
    return found->second;
  }

  int representative(int rank) const { return shifts_ == nullptr ? rank : shifts_->representative(rank); }

  // There is a flow alike for each shift, and they are spread evenly over all that shifts take the resource to.
  SimulatedRoute::Use use_of(SimulatedResource resource, double share) {
    if (shifts_ == nullptr) return {numbered(resource), share, 1};
    int orbit = shifts_->shifts();
    if (resource.kind == SimulatedResource::Kind::kLink) {
      const MachineSymmetry::LinkOrbit links = symmetry_->orbit({resource.index, resource.forward});
      resource.index = links.first.link;
      resource.forward = links.first.forward;
      orbit = links.size;
    } else {
      resource.index = resource.kind == SimulatedResource::Kind::kMemory ? representative(resource.index)
                                                                         : symmetry_->representative(resource.index);
    }
    return {numbered(resource), share, static_cast<uint32_t>(shifts_->shifts() / orbit)};
  }

  uint32_t numbered(const SimulatedResource& resource) {
    const auto [found, is_new] = resources_.try_emplace(resource, static_cast<uint32_t>(program_.resources.size()));
    if (is_new) program_.resources.push_back(resource);
    return found->second;
  }

  static constexpr uint32_t kNoRoute = ~uint32_t{0};

  const Plan& plan_;
  const Pairing& pairing_;
  Routes& routes_;
  const NodeShifts* shifts_ = nullptr;  // null: the plan is whole
  const MachineSymmetry* symmetry_ = nullptr;
  SimulatorProgram program_;
  std::vector<uint32_t> first_signal_, first_message_;  // of each rank
  std::map<SimulatedWork, uint32_t> works_;
  std::map<std::pair<int, int>, uint32_t> device_routes_;
  std::map<int, uint32_t> memory_routes_;
  std::map<SimulatedResource, uint32_t> resources_;
  std::map<int, bool> limiting_nics_;
  std::vector<Transfer> transfers_;  // of the operation at hand
  SimulatedWork work_;               // likewise
};

void check_placed(const Plan& plan, const Routes& routes) {
  const size_t placed = routes.placement().device_of_rank.size();
  if (placed == plan.ranks.size()) return;
  fail(ErrorCode::kInvalidArgument, "simulator: ", placed, " ranks are placed, but plan ", plan.algorithm, " has ",
       plan.ranks.size());
}

}  // namespace

size_t SimulatorProgram::queue_of(size_t step) const {
  const auto after = std::upper_bound(queues.begin(), queues.end(), step,
                                      [](size_t at, const SimulatedQueue& queue) { return at < queue.first; });
  return static_cast<size_t>(after - queues.begin()) - 1;
}

SimulatorProgram compile(const Plan& plan, const Pairing& pairing, Routes& routes) {
  check_placed(plan, routes);
  return Compiler(plan, pairing, routes).compile();
}

SimulatorProgram compile(const FoldedPlan& folded, const MachineSymmetry& symmetry, Routes& routes) {
  check_placed(folded.plan, routes);
  return Compiler(folded, symmetry, routes).compile();
}

}  // namespace plait
