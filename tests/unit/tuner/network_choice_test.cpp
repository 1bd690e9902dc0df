// Choices over hosts go by the rate of their network.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "topology/merge.hpp"
#include "topology/readers.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

constexpr Query kLong{Collective::kAllReduce, size_t{64} << 20};
constexpr double kOneGigabit = 0.118;  // 10^9 bytes/s that TCP carries

constexpr const char* kHost = R"({"format": "plait-machine 1", "name": "live", "source": "a test",
    "devices": [{"kind": "cpu", "names": ["cpu0"], "cores": 2}], "links": []})";
constexpr const char* kHostWithTwoPorts = R"({"format": "plait-machine 1", "name": "live", "source": "a test",
    "devices": [{"kind": "cpu", "names": ["cpu0"], "cores": 2},
                {"kind": "nic", "names": ["nic0", "nic1"], "port_gbps": 12.5}],
    "links": [{"kind": "pcie", "gbps": 32, "pairs": [["cpu0", "nic0"], ["cpu0", "nic1"]]}]})";

Tuner tuner_of_hosts(int hosts, int ranks_of_each, const Settings& settings = {}, const char* text = kHost) {
  const Topology host = parse_machine_json(text, "a test");
  std::vector<HostView> views;
  for (int i = 0; i < hosts; ++i) views.push_back({join("host", i), host});
  const Topology topology = merge(views);
  std::vector<int> devices;
  for (const int cpu : devices_of(topology, DeviceKind::kCpu)) {
    devices.insert(devices.end(), static_cast<size_t>(ranks_of_each), cpu);
  }
  return Tuner(place_on(topology, devices, settings), settings, {}, false);
}

// The bytes of the busiest port each way, over those of the message.
double port_share(const Choice& choice) {
  const Tuner::Network slow{1e-4, "slow enough to be all that counts"};
  Tuner other = tuner_of_hosts(2, choice.plan.arguments.ranks / 2);
  other.set_network(slow);
  const auto bytes = static_cast<double>(kLong.bytes);
  return other.cost(choice).seconds(bytes) * slow.gbps * 1e9 / bytes;
}

TEST(NetworkChoice, SendsFewBytesOverASlowNetwork) {
  Tuner tuner = tuner_of_hosts(2, 2);
  const Choice before = tuner.choose(kLong);
  tuner.set_network({kOneGigabit, "measured"});
  const Choice after = tuner.choose(kLong);
  EXPECT_GT(port_share(before), 1.4) << before.plan.text();
  EXPECT_LT(port_share(after), 1.1) << after.plan.text();
  EXPECT_EQ(before.reason().find("GB/s"), std::string::npos);
  EXPECT_NE(after.reason().find("over 0.118 GB/s each way of a host, measured"), std::string::npos) << after.reason();
}

// What the model predicts is what the rate allows.
TEST(NetworkChoice, PredictsByTheRate) {
  for (const double gbps : {0.0118, 0.118, 1.18}) {
    Tuner tuner = tuner_of_hosts(2, 1);
    tuner.set_network({gbps, "measured"});
    const double bytes = static_cast<double>(kLong.bytes), alone = bytes / (gbps * 1e9);
    const double seconds = tuner.cost(tuner.choose(kLong)).seconds(bytes);
    EXPECT_GE(seconds, 0.99 * alone);
    EXPECT_LE(seconds, 1.1 * alone);
  }
}

TEST(NetworkChoice, SaysWhereTheRateIsFrom) {
  Tuner tuner = tuner_of_hosts(2, 1);
  EXPECT_EQ(tuner.network().text(), "2.5 GB/s each way of a host, assumed by profile tcp");
  tuner.set_network({kOneGigabit, "measured"});
  EXPECT_EQ(tuner.network().text(), "0.118 GB/s each way of a host, measured");
  EXPECT_EQ(tuner.machine().profile->name, "tcp");
  for (const int nic : devices_of(tuner.machine().topology, DeviceKind::kNic)) {
    const Device& port = tuner.machine().topology.devices[static_cast<size_t>(nic)];
    EXPECT_NEAR(port.port_gbps * tuner.machine().profile->costs.link_efficiency, kOneGigabit, 1e-9);
    EXPECT_NE(port.source.find("0.118 GB/s each way of a host, measured"), std::string::npos) << port.source;
  }
}

// The rate is of a host, whatever ports it has.
TEST(NetworkChoice, PortsOfAHostShareItsRate) {
  Tuner tuner = tuner_of_hosts(2, 2, {}, kHostWithTwoPorts);
  const double share = tuner.machine().profile->costs.link_efficiency;
  EXPECT_NEAR(tuner.network().gbps, 2 * 12.5 * share, 1e-9) << tuner.network().text();
  tuner.set_network({4, "given"});
  for (const int nic : devices_of(tuner.machine().topology, DeviceKind::kNic)) {
    EXPECT_NEAR(tuner.machine().topology.devices[static_cast<size_t>(nic)].port_gbps * share, 2, 1e-9);
  }
}

// What profile tcp says of it.
TEST(NetworkChoice, NvgroupRingIsNoCandidateOverTcp) {
  const Tuner tuner = tuner_of_hosts(2, 2);
  const Candidates found = find_candidates(tuner.machine(), {}, Collective::kAllReduce, 0);
  for (const Candidate& it : found.all) EXPECT_NE(it.choice.algorithm, "nvgroup_ring");
  const auto out = std::ranges::find(found.left_out, std::string("nvgroup_ring"),
                                     [](const LeftOut& it) { return it.plan.algorithm; });
  ASSERT_NE(out, found.left_out.end());
  EXPECT_NE(out->why.find("measured"), std::string::npos) << out->why;
}

// The hosts to which a rank sends.
size_t hosts_told_by(const Plan& plan, int rank) {
  std::set<int> hosts;
  for (const Queue& queue : plan.ranks[static_cast<size_t>(rank)].queues) {
    for (const Operation& it : queue.operations) {
      if (it.kind == OpKind::kSend) hosts.insert(plan.node_of[static_cast<size_t>(it.peer_rank)]);
    }
  }
  hosts.erase(plan.node_of[static_cast<size_t>(rank)]);
  return hosts.size();
}

// Profile tcp leaves out the trees of a higher radix.
TEST(NetworkChoice, TheRootOfAShortBroadcastTellsNotAllHosts) {
  constexpr int kHosts = 4;
  for (const int ranks_of_each : {1, 2, 4}) {
    Tuner tuner = tuner_of_hosts(kHosts, ranks_of_each);
    for (size_t bytes = 4; bytes <= size_t{16} << 10; bytes *= 4) {
      const auto plan = tuner.plan(tuner.choose({Collective::kBroadcast, bytes}).plan);
      EXPECT_LT(hosts_told_by(plan->plan(), 0), kHosts - 1) << plan->plan().algorithm << " of " << bytes;
    }
  }
}

bool has_wide_trees(const Tuner& tuner, Collective collective) {
  const Candidates found = find_candidates(tuner.machine(), {}, collective, 0);
  return std::ranges::any_of(found.all, [](const Candidate& it) { return it.choice.arguments.radix > 2; });
}

TEST(NetworkChoice, GathersAndBroadcastsToManyHostsGoByAnyRadix) {
  EXPECT_FALSE(has_wide_trees(tuner_of_hosts(4, 1), Collective::kBroadcast));
  EXPECT_TRUE(has_wide_trees(tuner_of_hosts(4, 1), Collective::kGather));
  EXPECT_TRUE(has_wide_trees(tuner_of_hosts(16, 1), Collective::kBroadcast));
}

TEST(NetworkChoice, KeepsPlans) {
  Tuner tuner = tuner_of_hosts(2, 2);
  const auto before = tuner.plan(tuner.choose(kLong).plan);
  tuner.keep(before);
  tuner.set_network({kOneGigabit, "measured"});
  Query named = kLong;
  named.plan = before->fingerprint();
  EXPECT_EQ(tuner.choose(named).plan.text(), before->plan().algorithm);
}

TEST(NetworkChoice, MattersWhereTheModelChooses) {
  Settings pinned;
  pinned.algorithm = "all_reduce:1M-=ring";
  Tuner tuner = tuner_of_hosts(2, 2, pinned);
  EXPECT_FALSE(tuner.goes_by_model(kLong));
  EXPECT_TRUE(tuner.goes_by_model({Collective::kAllReduce, 1000}));
  EXPECT_TRUE(tuner.goes_by_model({Collective::kBroadcast, kLong.bytes}));
  Query named = kLong;
  named.plan = 1;
  EXPECT_FALSE(tuner_of_hosts(2, 2).goes_by_model(named));
}

}  // namespace
}  // namespace plait
