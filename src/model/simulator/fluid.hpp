// Flows that share links as fluids do: max-min fairly.
//
// A resource (one direction of a link, a NIC, a memory) carries so many bytes a second. A route names the resources
// that its flows take, each with the share of their bytes that it carries: parallel links carry a part each. At any
// time the rates are those of max-min fairness: no flow can go faster but at the cost of one that is no faster than it
// (Bertsekas and Gallager, Data Networks, section 6.5.2).
//
// Three things make this fast:
// - Flows of one route have one rate. So each route counts what it has served to any of its flows since it became busy,
//   and a flow ends when that count has grown by its bytes. A change of rate touches the route, not its flows.
// - A resource couples its routes only while they could ask for more than it has, all at the most that their other
//   resources allow. Where a flow starts or ends, only the routes that such resources join to it get new rates.
// - Rates are found anew only when the next end is asked for, after all that starts and ends at one time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "model/simulator/due_heap.hpp"

namespace plait {

class FluidNetwork {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  static constexpr double kNever = DueHeap::kNever;
  // Times that differ by less, as a share of themselves, are one.
  static constexpr double kSameTime = 1e-12;

  struct Use {
    uint32_t resource = 0;
    double share = 1;  // of a flow's bytes that the resource carries
    // The number of flows that are alike: they start, go on and end together. The route's flow is one of them.
    uint32_t alike = 1;
    double load() const { return share * alike; }
  };

  // Both return a number, counted from 0 on. A route's flows get no more than `most_per_second` bytes each.
  uint32_t add_resource(double bytes_per_second);
  uint32_t add_route(const std::vector<Use>& uses, double most_per_second = kNever);
  size_t resources() const { return resources_.size(); }

  // Bytes a second that a flow gets where it is alone; infinity where nothing limits it.
  double alone(uint32_t route) const { return routes_[route].ceiling; }

  // Starts a flow of more than 0 bytes at `now`, which is no earlier than any time before; where it is later than the
  // last start, next_end() was asked in between. `owner` is named at its end.
  void start(uint32_t route, double bytes, uint32_t owner, double now);
  // When the next flow ends; kNever where none is under way.
  double next_end();
  struct Ended {
    uint32_t owner = 0, route = 0;
    uint32_t bottleneck = kNone;  // the resource that held it back in the end; kNone: it had what the route allows
  };
  // Ends all flows that are due at next_end(), and adds them.
  void end_due(std::vector<Ended>& ended);

  double rate(uint32_t route) const { return routes_[route].rate; }  // of each flow, as of the last next_end()
  // Seconds in which any flow was on it, until the last end.
  double busy_seconds(uint32_t resource) const { return resources_[resource].busy_seconds; }
  uint32_t most_flows(uint32_t resource) const { return resources_[resource].most_flows; }  // at once
  // Is called with every stretch of time in which a resource was busy, when it ends.
  void watch(std::function<void(uint32_t resource, double from, double to)> watcher) { watcher_ = std::move(watcher); }

 private:
  struct Resource {
    double capacity = 0;
    double wanted = 0;  // by all flows on it, each at the most that its route allows
    uint32_t flows = 0, most_flows = 0;
    std::vector<uint32_t> active;  // uses by routes that have flows
    double busy_since = 0, busy_seconds = 0;
    // While rates are found.
    double left = 0, weight = 0;
    bool is_dirty = false, is_joined = false;
  };
  struct RouteUse {
    Use use;
    uint32_t route = 0;
    uint32_t position = 0;  // in Resource::active
  };
  struct Flow {
    double end = 0;  // of what the route has served
    uint32_t owner = 0;
    bool operator<(const Flow& other) const {
      return end != other.end ? end > other.end : owner > other.owner;  // the first to end on top of a heap
    }
  };
  struct Route {
    uint32_t first_use = 0, end_use = 0;
    double ceiling = kNever;
    double served = 0, rate = 0, updated = 0;
    uint32_t bottleneck = kNone;
    std::vector<Flow> flows;  // a heap
    bool is_dirty = false, is_settled = false;
  };

  bool is_tight(const Resource& it) const { return it.wanted > it.capacity * (1 + 1e-9); }
  void change(uint32_t route, int flows, double now);
  void join(RouteUse& use, double now);
  void leave(RouteUse& use, double now);
  void mark(uint32_t route);
  void find_rates();
  void collect();
  void take_in(uint32_t route);
  void fill();
  void give(uint32_t route, double rate, uint32_t bottleneck);

  std::vector<Resource> resources_;
  std::vector<RouteUse> uses_;
  std::vector<Route> routes_;
  DueHeap ends_;  // of routes
  double now_ = 0;
  std::vector<uint32_t> dirty_routes_, dirty_resources_;
  std::vector<uint32_t> joined_routes_, joined_resources_;  // whose rates are found at once
  std::function<void(uint32_t, double, double)> watcher_;
};

}  // namespace plait
