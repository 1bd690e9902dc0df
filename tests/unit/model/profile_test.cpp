// Profiles: what was measured, and whose.
#include "model/profile.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "model/placement.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

std::string profile_with(const std::string& times) {
  return R"({"format": "plait-profile 1", "name": "mine", "fits": {"fabric": "any"}, "costs": {"signal_us": {}},
"source": {"machine": "m", "date": "d", "command": "c", "commit": "e"},
"times": [)" +
         times + "]}";
}

std::string times_of(const std::string& us) {
  return R"({"collective": "all_gather", "ranks": 2, "gpus": ["H100"],
"source": {"machine": "two of them", "date": "today", "command": "bench", "commit": "abc"}, "us": )" +
         us + "}";
}

TEST(Profile, ReadsTimes) {
  const Profile profile =
      parse_profile(profile_with(times_of(R"j({"flat(store)": [[64, 1.5], ["1K", 2]], "ring": [["4M", 90]]})j")), "f");
  ASSERT_EQ(profile.times.size(), 1u);
  const MeasuredTimes& times = profile.times[0];
  EXPECT_EQ(times.source, "two of them; today, commit abc: bench");
  const auto& flat = times.of_plan.at("flat(store)");
  ASSERT_EQ(flat.size(), 2u);
  EXPECT_EQ(flat[1].bytes, 1024u);
  EXPECT_DOUBLE_EQ(flat[1].seconds, 2e-6);
  EXPECT_EQ(times.of_plan.at("ring")[0].bytes, size_t{4} << 20);
}

TEST(Profile, ReadsWhatFewBytesGetOfLinks) {
  const auto profile_of = [](const std::string& costs) {
    std::string text = profile_with(times_of("{}"));
    return parse_profile(text.replace(text.find(R"({"signal_us": {}})"), 17, costs), "f");
  };
  const auto kind = [](LinkKind it) { return static_cast<size_t>(it); };
  const Costs costs = profile_of(R"({"signal_us": {"pcie": 2}, "half_bytes": {"nvlink": 65536}})").costs;
  EXPECT_EQ(costs.half_bytes[kind(LinkKind::kNvlink)], 65536);
  EXPECT_EQ(costs.half_bytes[kind(LinkKind::kPcie)], 0);
  EXPECT_DOUBLE_EQ(costs.signal_seconds[kind(LinkKind::kPcie)], 2e-6);
  EXPECT_THROW(profile_of(R"({"signal_us": {}, "half_bytes": {"nvlinks": 65536}})"), Error);
  EXPECT_THROW(profile_of(R"({"signal_us": {}, "half_bytes": {"nvlink": -1}})"), Error);
}

TEST(Profile, ReadsCachesAndCombining) {
  const auto costs_of = [](const std::string& members) {
    std::string text = profile_with(times_of("{}"));
    return parse_profile(text.replace(text.find(R"({"signal_us": {}})"), 17, R"({"signal_us": {}, )" + members + "}"),
                         "f")
        .costs;
  };
  const Costs costs = costs_of(R"("memory_gbps": 10, "cache_gbps": 40, "cache_bytes": "1M", "combine_share": 1.5)");
  EXPECT_EQ(costs.combine_share, 1.5);
  const double megabyte = 1 << 20;
  EXPECT_DOUBLE_EQ(costs.memory_seconds(megabyte / 2), megabyte / 2 / 40e9);
  EXPECT_DOUBLE_EQ(costs.memory_seconds(megabyte), megabyte / 40e9);
  EXPECT_DOUBLE_EQ(costs.memory_seconds(3 * megabyte), megabyte / 40e9 + 2 * megabyte / 10e9);
  EXPECT_DOUBLE_EQ(costs_of(R"("memory_gbps": 10)").memory_seconds(1e6), 1e-4);
  EXPECT_EQ(costs_of(R"("cache_gbps": 10)").memory_seconds(1e6), 0);
  EXPECT_THROW(costs_of(R"("combine_share": 0.5)"), Error);
}

// Live hosts have NICs that were assumed where Linux shows none.
TEST(Profile, OfTcpFitsHostsWithoutRdmaDevices) {
  Topology hosts;
  hosts.name = "live";
  hosts.nodes = 2;
  for (const int node : {0, 1}) {
    Device cpu, nic;
    cpu.kind = DeviceKind::kCpu;
    nic.kind = DeviceKind::kNic;
    cpu.node = nic.node = node;
    nic.source = "assumed: some";
    hosts.devices.push_back(cpu);
    hosts.devices.push_back(nic);
  }
  EXPECT_EQ(profile_for(hosts, {0, 2}).name, "tcp");
  EXPECT_GT(profile_for(hosts, {0, 2}).costs.message_seconds, 0);
  EXPECT_EQ(profile_for(hosts, {0, 0}).name, "host");
  hosts.devices[3].source = "Linux";
  EXPECT_EQ(profile_for(hosts, {0, 2}).name, "default");
}

TEST(Profile, RefusesTimesThatNobodyCouldFind) {
  for (const char* wrong :
       {R"j({"flat(push)": [[64, 1]]})j", R"j({"flat( store )": [[64, 1]]})j", R"j({"chain": [[64, 1]]})j",
        R"j({"ring": [[64]]})j", R"j({"ring": [[64, 1], [64, 2]]})j", R"j({"ring": [["64Q", 1]]})j"}) {
    EXPECT_THROW(parse_profile(profile_with(times_of(wrong)), "f"), Error) << wrong;
  }
}

TEST(Profile, TimesAreOfAsManySuchGpus) {
  Profile profile = parse_profile(profile_with(times_of(R"j({"ring": [[64, 1]]})j")), "f");
  const auto found = [&](const char* name, const std::vector<int>& gpus, Collective collective) {
    const Topology topology = machine(name);
    std::vector<int> devices;
    for (const int gpu : gpus) devices.push_back(devices_of(topology, DeviceKind::kGpu)[static_cast<size_t>(gpu)]);
    return times_for(profile, collective, topology, devices) != nullptr;
  };
  EXPECT_TRUE(found("hgx-h100-8", {0, 5}, Collective::kAllGather));
  EXPECT_FALSE(found("hgx-h100-8", {0, 5}, Collective::kGather));
  EXPECT_FALSE(found("hgx-h100-8", {0, 1, 2}, Collective::kAllGather));
  EXPECT_FALSE(found("hgx-h100-8", {3, 3}, Collective::kAllGather));  // two ranks of one GPU
  EXPECT_FALSE(found("hgx-h200-8", {0, 1}, Collective::kAllGather));
}

}  // namespace
}  // namespace plait
