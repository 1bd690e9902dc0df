// Random flows over random links, and when the simulator ends them: for tests against other ways to tell that.
#pragma once

#include <cstdint>
#include <vector>

#include "model/simulator/fluid.hpp"
#include "support/seed.hpp"

namespace plait::test {

struct FlowNetwork {
  struct Route {
    std::vector<FluidNetwork::Use> uses;
    double ceiling;
  };
  std::vector<double> capacities;
  std::vector<Route> routes;
};

// Random flows over few resources, so that many are shared, with few capacities, so that some are used up at once.
inline FlowNetwork random_network(Random& random) {
  FlowNetwork network;
  for (uint64_t i = between(random, 1, 8); i > 0; --i) {
    network.capacities.push_back(static_cast<double>(between(random, 1, one_in(random, 2) ? 4 : 1000)));
  }
  for (uint64_t i = between(random, 1, 12); i > 0; --i) {
    FlowNetwork::Route route{{},
                             one_in(random, 4) ? static_cast<double>(between(random, 1, 10)) : FluidNetwork::kNever};
    const double share = one_in(random, 3) ? 1.0 / static_cast<double>(between(random, 1, 4)) : 1;
    for (uint32_t resource = 0; resource < network.capacities.size(); ++resource) {
      if (one_in(random, 3)) route.uses.push_back({resource, share});
    }
    if (route.uses.empty()) route.uses.push_back({0, share});
    network.routes.push_back(route);
  }
  return network;
}

struct Arrival {
  double time = 0, bytes = 0;
  uint32_t route = 0;
};

inline std::vector<Arrival> random_arrivals(Random& random, const FlowNetwork& network) {
  std::vector<Arrival> arrivals;
  double time = 0;
  for (uint64_t i = between(random, 1, 60); i > 0; --i) {
    if (one_in(random, 2)) time += static_cast<double>(between(random, 0, 1000)) / 100;  // else together
    arrivals.push_back({time, static_cast<double>(between(random, 1, 300)),
                        static_cast<uint32_t>(between(random, 0, network.routes.size() - 1))});
  }
  return arrivals;
}

// When each ends.
inline std::vector<double> simulated_ends(const FlowNetwork& network, const std::vector<Arrival>& arrivals) {
  FluidNetwork fluid;
  for (const double capacity : network.capacities) fluid.add_resource(capacity);
  for (const FlowNetwork::Route& route : network.routes) fluid.add_route(route.uses, route.ceiling);
  std::vector<double> ends(arrivals.size());
  for (size_t next = 0; next < arrivals.size() || fluid.next_end() < FluidNetwork::kNever;) {
    if (next < arrivals.size() && arrivals[next].time < fluid.next_end()) {
      fluid.start(arrivals[next].route, arrivals[next].bytes, static_cast<uint32_t>(next), arrivals[next].time);
      ++next;
      continue;
    }
    const double now = fluid.next_end();
    std::vector<FluidNetwork::Ended> ended;
    fluid.end_due(ended);
    for (const FluidNetwork::Ended& it : ended) ends[it.owner] = now;
  }
  return ends;
}

}  // namespace plait::test
