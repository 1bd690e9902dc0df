// Plans on links.
#include "model/link_load.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "plan/conditions.hpp"
#include "plan/form.hpp"

namespace plait {
namespace {

constexpr double kBytesPerGb = 1e9;

// Paths between devices, each looked up once.
class Routes {
 public:
  Routes(const Topology& topology, const Placement& placement)
      : topology_(topology), placement_(placement), finder_(topology) {}

  int device_of(const Endpoint& end) const {
    const auto& devices = end.host ? placement_.cpu_of_rank : placement_.device_of_rank;
    return devices[static_cast<size_t>(end.rank)];
  }
  const std::vector<Path>& between(int from, int to) {
    const auto [it, is_new] = paths_.try_emplace({from, to});
    if (is_new) it->second = carrying_paths(topology_, finder_, from, to);
    return it->second;
  }
  // Seconds that one byte takes.
  double seconds(const Endpoint& from, const Endpoint& to) {
    const int a = device_of(from), b = device_of(to);
    if (a == b) return 0;
    double gbps = 0;
    for (const Path& path : between(a, b)) gbps += path.gbps;
    return 1 / (gbps * kBytesPerGb);
  }

 private:
  const Topology& topology_;
  const Placement& placement_;
  const PathFinder finder_;
  std::map<std::pair<int, int>, std::vector<Path>> paths_;
};

// When each lane would be done if every operation had its paths for itself.
class Chain {
 public:
  Chain(const Plan& plan, Routes& routes) : plan_(plan), routes_(routes), pairing_(check_form(plan)) {
    for (int rank = 0; rank < plan.rank_count(); ++rank) {
      first_lane_.push_back(lanes_.size());
      for (size_t lane = 0; lane < plan.ranks[rank].lanes.size(); ++lane) {
        lanes_.push_back({rank, static_cast<int>(lane)});
      }
      signals_.emplace_back(plan.ranks[rank].signals, kNotYet);
      messages_.emplace_back(plan.ranks[rank].messages, kNotYet);
    }
  }

  double seconds() {
    std::deque<size_t> ready;
    for (size_t i = 0; i < lanes_.size(); ++i) ready.push_back(i);
    double last = 0;
    while (!ready.empty()) {
      LaneTime& lane = lanes_[ready.front()];
      ready.pop_front();
      const auto& operations = plan_.ranks[lane.rank].lanes[lane.lane].operations;
      while (lane.next < static_cast<int>(operations.size()) && step(lane, operations[lane.next], ready)) ++lane.next;
      last = std::max(last, lane.now);
    }
    return last;
  }

 private:
  static constexpr double kNotYet = -1;
  struct LaneTime {
    int rank = 0, lane = 0;
    int next = 0;
    double now = 0;
  };

  bool step(LaneTime& lane, const Operation& operation, std::deque<size_t>& ready) {
    switch (operation.kind) {
      case OpKind::kSignal:
        return tell(lane, signals_, pairing_.signals, operation, ready);
      case OpKind::kSend:
        return tell(lane, messages_, pairing_.messages, operation, ready);
      case OpKind::kWait:
        return hear(lane, signals_[lane.rank][operation.number]);
      case OpKind::kReceive:
        if (!hear(lane, messages_[lane.rank][operation.number])) return false;
        break;
      case OpKind::kFold:
        break;
    }
    lane.now += seconds_of({lane.rank, lane.lane, lane.next}, operation);
    return true;
  }

  bool tell(const LaneTime& lane, std::vector<std::vector<double>>& times, const std::vector<std::vector<Pair>>& pairs,
            const Operation& operation, std::deque<size_t>& ready) {
    times[operation.peer_rank][operation.number] = lane.now;
    const OperationId& to = pairs[operation.peer_rank][operation.number].to;
    ready.push_back(first_lane_[to.rank] + to.lane);
    return true;
  }

  static bool hear(LaneTime& lane, double time) {
    if (time == kNotYet) return false;
    lane.now = std::max(lane.now, time);
    return true;
  }

  // The crossings of one operation go at the same time; those over the same pair of devices share it.
  double seconds_of(const OperationId& id, const Operation& operation) {
    if (operation.chunks == 0) return 0;  // a barrier's message
    std::map<std::pair<int, int>, double> busy;
    double longest = 0;
    for (const Transfer& crossing : transfers(plan_, pairing_, id)) {
      double& seconds = busy[{routes_.device_of(crossing.from), routes_.device_of(crossing.to)}];
      seconds += operation.chunks * routes_.seconds(crossing.from, crossing.to);
      longest = std::max(longest, seconds);
    }
    return longest / chunks_of_size(plan_);
  }

  const Plan& plan_;
  Routes& routes_;
  const Pairing pairing_;
  std::vector<LaneTime> lanes_;
  std::vector<size_t> first_lane_;
  std::vector<std::vector<double>> signals_, messages_;  // when they were sent
};

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
  load.chain_seconds = Chain(plan, routes).seconds();
  return load;
}

}  // namespace plait
