// Max-min fair rates, by progressive filling.
#include "model/simulator/fluid.hpp"

#include <algorithm>
#include <queue>
#include <utility>

namespace plait {

uint32_t FluidNetwork::add_resource(double bytes_per_second) {
  resources_.emplace_back().capacity = bytes_per_second;
  return static_cast<uint32_t>(resources_.size() - 1);
}

uint32_t FluidNetwork::add_route(const std::vector<Use>& uses, double most_per_second) {
  const auto number = static_cast<uint32_t>(routes_.size());
  Route& route = routes_.emplace_back();
  ends_.resize(routes_.size());
  route.ceiling = most_per_second;
  route.first_use = static_cast<uint32_t>(uses_.size());
  for (const Use& use : uses) {
    uses_.push_back({use, number, 0});
    route.ceiling = std::min(route.ceiling, resources_[use.resource].capacity / use.share);
  }
  route.end_use = static_cast<uint32_t>(uses_.size());
  return number;
}

void FluidNetwork::start(uint32_t route, double bytes, uint32_t owner, double now) {
  now_ = now;
  Route& it = routes_[route];
  if (it.flows.empty()) {
    it.served = it.rate = 0;
  } else {
    it.served += it.rate * (now - it.updated);
  }
  it.updated = now;
  it.flows.push_back({it.served + bytes, owner});
  std::push_heap(it.flows.begin(), it.flows.end());
  change(route, 1, now);
}

void FluidNetwork::change(uint32_t route, int flows, double now) {
  Route& it = routes_[route];
  const bool begins = flows > 0 && it.flows.size() == 1, ends = it.flows.empty();
  for (uint32_t i = it.first_use; i < it.end_use; ++i) {
    RouteUse& use = uses_[i];
    Resource& resource = resources_[use.use.resource];
    const bool was_tight = is_tight(resource);
    if (begins) join(use, now);
    if (ends) leave(use, now);
    resource.flows += static_cast<uint32_t>(flows) * use.use.alike;
    resource.most_flows = std::max(resource.most_flows, resource.flows);
    resource.wanted = resource.active.empty() ? 0 : resource.wanted + flows * use.use.load() * it.ceiling;
    if ((was_tight || is_tight(resource)) && !resource.is_dirty) {
      resource.is_dirty = true;
      dirty_resources_.push_back(use.use.resource);
    }
  }
  mark(route);
}

void FluidNetwork::mark(uint32_t route) {
  if (std::exchange(routes_[route].is_dirty, true)) return;
  dirty_routes_.push_back(route);
}

void FluidNetwork::join(RouteUse& use, double now) {
  Resource& resource = resources_[use.use.resource];
  if (resource.active.empty()) resource.busy_since = now;
  use.position = static_cast<uint32_t>(resource.active.size());
  resource.active.push_back(static_cast<uint32_t>(&use - uses_.data()));
}

void FluidNetwork::leave(RouteUse& use, double now) {
  Resource& resource = resources_[use.use.resource];
  uses_[resource.active.back()].position = use.position;
  resource.active[use.position] = resource.active.back();
  resource.active.pop_back();
  if (!resource.active.empty()) return;
  resource.busy_seconds += now - resource.busy_since;
  if (watcher_) watcher_(use.use.resource, resource.busy_since, now);
}

double FluidNetwork::next_end() {
  if (!dirty_routes_.empty()) find_rates();
  return ends_.first_time();
}

void FluidNetwork::end_due(std::vector<Ended>& ended) {
  now_ = next_end();
  const double horizon = now_ * (1 + kSameTime);
  while (ends_.first_time() <= horizon) {
    const uint32_t number = ends_.first();
    Route& it = routes_[number];
    it.served = it.flows.front().end;
    it.updated = now_;
    const double due = it.served + it.rate * (horizon - now_);
    int count = 0;
    for (; !it.flows.empty() && it.flows.front().end <= due; ++count) {
      ended.push_back({it.flows.front().owner, number, it.bottleneck});
      std::pop_heap(it.flows.begin(), it.flows.end());
      it.flows.pop_back();
    }
    ends_.remove(number);
    change(number, -count, now_);
  }
}

void FluidNetwork::find_rates() {
  collect();
  fill();
  for (const uint32_t route : joined_routes_) routes_[route].is_settled = false;
  for (const uint32_t resource : joined_resources_) resources_[resource].is_joined = false;
  joined_routes_.clear();
  joined_resources_.clear();
}

// All routes that tight resources join to what has changed.
void FluidNetwork::collect() {
  for (const uint32_t route : dirty_routes_) {
    routes_[route].is_dirty = false;
    take_in(route);
  }
  for (const uint32_t resource : dirty_resources_) {
    resources_[resource].is_dirty = false;
    for (const uint32_t use : resources_[resource].active) take_in(uses_[use].route);
  }
  dirty_routes_.clear();
  dirty_resources_.clear();
  for (size_t next = 0; next < joined_resources_.size(); ++next) {
    for (const uint32_t use : resources_[joined_resources_[next]].active) take_in(uses_[use].route);
  }
}

void FluidNetwork::take_in(uint32_t route) {
  Route& it = routes_[route];
  if (it.flows.empty() || std::exchange(it.is_settled, true)) return;
  it.served += it.rate * (now_ - it.updated);
  it.updated = now_;
  it.rate = -1;  // not yet known
  joined_routes_.push_back(route);
  for (uint32_t i = it.first_use; i < it.end_use; ++i) {
    Resource& resource = resources_[uses_[i].use.resource];
    if (!is_tight(resource) || std::exchange(resource.is_joined, true)) continue;
    resource.left = resource.capacity;
    resource.weight = 0;
    joined_resources_.push_back(uses_[i].use.resource);
  }
}

// All rates rise together. A route stops at its ceiling, or when a resource of its has no more to give.
void FluidNetwork::fill() {
  using Level = std::pair<double, uint32_t>;  // at which a resource is used up
  std::priority_queue<Level, std::vector<Level>, std::greater<>> levels;
  for (const uint32_t number : joined_resources_) {
    Resource& resource = resources_[number];
    for (const uint32_t use : resource.active) {
      resource.weight += uses_[use].use.load() * static_cast<double>(routes_[uses_[use].route].flows.size());
    }
    levels.emplace(resource.left / resource.weight, number);
  }
  // Most routes never get to their ceiling, so they are a heap, the lowest first, and not sorted.
  const auto higher = [&](uint32_t a, uint32_t b) {
    return routes_[a].ceiling != routes_[b].ceiling ? routes_[a].ceiling > routes_[b].ceiling : a > b;
  };
  std::make_heap(joined_routes_.begin(), joined_routes_.end(), higher);
  auto end = joined_routes_.end();
  const auto stop_at_ceiling = [&](double level) {
    while (end != joined_routes_.begin() && routes_[joined_routes_.front()].ceiling <= level) {
      const uint32_t number = joined_routes_.front();
      std::pop_heap(joined_routes_.begin(), end--, higher);
      if (routes_[number].rate < 0) give(number, routes_[number].ceiling, kNone);
    }
  };
  while (!levels.empty()) {
    const auto [level, number] = levels.top();
    Resource& resource = resources_[number];
    if (resource.weight <= 0) {
      levels.pop();
      continue;
    }
    // What has stopped since leaves more to the others, so levels only rise.
    stop_at_ceiling(level);
    const double now = resource.weight > 0 ? std::max(0.0, resource.left) / resource.weight : kNever;
    levels.pop();
    if (now > level) {
      levels.emplace(now, number);
      continue;
    }
    for (const uint32_t use : resource.active) {
      if (routes_[uses_[use].route].rate < 0) give(uses_[use].route, level, number);
    }
    resource.weight = 0;
  }
  stop_at_ceiling(kNever);
}

void FluidNetwork::give(uint32_t route, double rate, uint32_t bottleneck) {
  Route& it = routes_[route];
  it.rate = rate;
  it.bottleneck = bottleneck;
  const auto flows = static_cast<double>(it.flows.size());
  for (uint32_t i = it.first_use; i < it.end_use; ++i) {
    Resource& resource = resources_[uses_[i].use.resource];
    if (!resource.is_joined) continue;
    resource.left -= rate * flows * uses_[i].use.load();
    resource.weight -= flows * uses_[i].use.load();
  }
  ends_.set(route, now_ + (it.flows.front().end - it.served) / rate);
}

}  // namespace plait
