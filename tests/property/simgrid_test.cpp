// Flows end when SimGrid's fluid model says, a max-min solver of others. Skipped where SimGrid is not installed
// (Debian's libsimgrid-dev).
#include <gtest/gtest.h>

#if PLAIT_HAVE_SIMGRID

#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "support/random_flows.hpp"

namespace plait {
namespace {

namespace sg = simgrid::s4u;
using test::Arrival;
using test::FlowNetwork;

struct Case {
  FlowNetwork network;
  std::vector<Arrival> arrivals;
  std::vector<double> ends;  // as SimGrid says
};

// Bandwidth is all that counts: no latency, no headers, no acknowledgements.
void configure() {
  for (const char* setting :
       {"network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/bandwidth-factor:1",
        "network/latency-factor:1", "network/weight-S:0", "maxmin/precision:1e-9", "surf/precision:1e-12"}) {
    sg::Engine::set_config(setting);
  }
}

// Each route leads from a host of its own to another; a ceiling is a link that does not share.
void add(sg::NetZone* zone, const std::string& name, Case& it) {
  std::vector<const sg::Link*> links;
  for (size_t i = 0; i < it.network.capacities.size(); ++i) {
    links.push_back(zone->create_link(join(name, "-link", i), it.network.capacities[i])->set_latency(0)->seal());
  }
  for (size_t i = 0; i < it.network.routes.size(); ++i) {
    const FlowNetwork::Route& route = it.network.routes[i];
    std::vector<sg::LinkInRoute> over;
    for (const auto& use : route.uses) over.emplace_back(links[use.resource]);
    if (route.ceiling < FluidNetwork::kNever) {
      sg::Link* ceiling = zone->create_link(join(name, "-ceiling", i), route.ceiling)->set_latency(0);
      over.emplace_back(ceiling->set_sharing_policy(sg::Link::SharingPolicy::FATPIPE)->seal());
    }
    sg::Host* from = zone->create_host(join(name, "-from", i), 1.0)->seal();
    sg::Host* to = zone->create_host(join(name, "-to", i), 1.0)->seal();
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, over, false);
  }
}

void start_flows(const std::string& name, Case& it) {
  it.ends.resize(it.arrivals.size());
  for (size_t flow = 0; flow < it.arrivals.size(); ++flow) {
    const Arrival arrival = it.arrivals[flow];
    sg::Host* from = sg::Host::by_name(join(name, "-from", arrival.route));
    sg::Host* to = sg::Host::by_name(join(name, "-to", arrival.route));
    sg::Actor::create(join(name, "-flow", flow), from, [=, end = &it.ends[flow]] {
      sg::this_actor::sleep_until(arrival.time);
      sg::Comm::sendto(from, to, static_cast<uint64_t>(arrival.bytes));
      *end = sg::Engine::get_clock();
    });
  }
}

// Networks that know nothing of each other run all at once, since a process has one engine.
TEST(SimGrid, EndsTheSameFlowsAtTheSameTimes) {
  constexpr int kNetworks = 300;
  constexpr double kTolerance = 1e-6;  // SimGrid calls rates equal that differ by less
  test::Random random(test::run_seed());
  char program[] = "simgrid_test", quiet[] = "--log=root.threshold:warning";
  char* arguments[] = {program, quiet, nullptr};
  int count = 2;
  sg::Engine engine(&count, arguments);
  configure();
  sg::NetZone* zone = sg::create_full_zone("all");
  std::vector<Case> cases(kNetworks);
  for (int i = 0; i < kNetworks; ++i) {
    Case& it = cases[static_cast<size_t>(i)];
    it.network = test::random_network(random);
    for (auto& route : it.network.routes) {
      for (auto& use : route.uses) use.share = 1;  // which routes of SimGrid do not have
    }
    it.arrivals = test::random_arrivals(random, it.network);
    add(zone, join("n", i), it);
  }
  zone->seal();
  for (int i = 0; i < kNetworks; ++i) start_flows(join("n", i), cases[static_cast<size_t>(i)]);
  engine.run();
  for (int i = 0; i < kNetworks; ++i) {
    const Case& it = cases[static_cast<size_t>(i)];
    const std::vector<double> found = test::simulated_ends(it.network, it.arrivals);
    for (size_t flow = 0; flow < found.size(); ++flow) {
      ASSERT_NEAR(found[flow], it.ends[flow], kTolerance * (1 + it.ends[flow])) << "network " << i << ", flow " << flow;
    }
  }
}

}  // namespace
}  // namespace plait

#else

TEST(SimGrid, EndsTheSameFlowsAtTheSameTimes) { GTEST_SKIP() << "SimGrid is not installed (libsimgrid-dev)"; }

#endif
