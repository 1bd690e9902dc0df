// Ranks that see different things agree on one topology, and know their places in it.
#include "api/agreed_topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "api/live_machine.hpp"
#include "support/add_device.hpp"
#include "support/expect_outcomes.hpp"
#include "support/host_views.hpp"
#include "support/rank_processes.hpp"
#include "support/rank_threads.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

using test::container;
using test::host;
using test::Outcomes;

// What each rank agreed on, with what it sees and its own settings.
struct Agreement {
  std::vector<AgreedTopology> of_rank;
  Outcomes outcomes;
};

Agreement agree(const std::vector<ViewReader>& views, const std::vector<Settings>& settings) {
  Agreement agreement;
  agreement.of_rank.resize(views.size());
  const UniqueId id = test::new_id();
  const auto size = static_cast<int>(views.size());
  agreement.outcomes = test::run_threads(size, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    Bootstrap bootstrap = Bootstrap::create(id, rank, size);
    agreement.of_rank[r] = agree_on_topology(bootstrap, settings[r], views[r]);
  });
  return agreement;
}

// The topology of ranks with these views, which has to be one.
AgreedTopology agreed_on(const std::vector<HostView>& views) {
  std::vector<ViewReader> readers;
  for (const HostView& view : views) readers.push_back([view] { return view; });
  const Agreement agreement = agree(readers, std::vector<Settings>(views.size()));
  test::expect_all_well(agreement.outcomes);
  for (const AgreedTopology& other : agreement.of_rank) {
    EXPECT_EQ(other.topology, agreement.of_rank[0].topology);
    EXPECT_EQ(other.node_of_rank, agreement.of_rank[0].node_of_rank);
  }
  return agreement.of_rank[0];
}

HostView view_of_one(const std::string& name, const std::string& gpu) { return {name, container(host(name), {gpu})}; }

std::vector<GpuIdentity> identities(const std::vector<std::string>& bus_ids) {
  std::vector<GpuIdentity> gpus;
  for (const std::string& bus_id : bus_ids) {
    std::strncpy(gpus.emplace_back().bus_id, bus_id.c_str(), sizeof(GpuIdentity::bus_id) - 1);
  }
  return gpus;
}

// By rank.
std::vector<std::string> names(const RankMachine& machine) {
  std::vector<std::string> names;
  for (const int device : machine.placement.device_of_rank) {
    names.push_back(machine.topology.devices[static_cast<size_t>(device)].name);
  }
  return names;
}

using Names = std::vector<std::string>;
using Nodes = std::vector<int>;
using Groups = std::vector<std::vector<int>>;

TEST(AgreedTopology, EqualViewsStayAsTheyAre) {
  const AgreedTopology agreed = agreed_on({{"here", host()}, {"here", host()}, {"here", host()}});
  EXPECT_EQ(agreed.topology, host());
  EXPECT_EQ(agreed.node_of_rank, Nodes({0, 0, 0}));
}

TEST(AgreedTopology, ContainersOfOneHostSeeAllOfItTogether) {
  std::vector<HostView> views;
  std::vector<std::string> bus_ids, gpus;
  for (const int number : {6, 1, 4, 7, 0, 5, 2, 3}) {  // each a GPU of its own, in any order
    gpus.push_back(join("gpu", number));
    bus_ids.push_back(join("0000:0", number, ":00.0"));
    views.push_back(view_of_one("a", gpus.back()));
  }
  const AgreedTopology agreed = agreed_on(views);
  EXPECT_EQ(agreed.topology.devices, host().devices);
  EXPECT_TRUE(agreed.topology.links == merge({{"a", host()}}).links);
  EXPECT_EQ(agreed.topology.open_links, std::vector<OpenLink>());
  EXPECT_EQ(agreed.node_of_rank, Nodes(8, 0));
  const RankMachine machine = gpu_machine(agreed, identities(bus_ids), true, {});
  EXPECT_EQ(names(machine), gpus);
  EXPECT_EQ(groups_or_nodes(machine.base), Groups({{0, 2, 3, 5}, {1, 4, 6, 7}}));
}

TEST(AgreedTopology, SeveralHostsAreSeveralNodes) {
  const std::vector<HostView> views = {
      {"z", host("z")}, view_of_one("a", "gpu0"), {"z", host("z")}, view_of_one("a", "gpu1")};
  const AgreedTopology agreed = agreed_on(views);
  EXPECT_EQ(agreed.topology.nodes, 2);
  EXPECT_EQ(agreed.node_of_rank, Nodes({0, 1, 0, 1}));
  // GPUs of two hosts have the same addresses.
  const auto gpus = identities({"0000:00:00.0", "0000:00:00.0", "0000:01:00.0", "0000:01:00.0"});
  const RankMachine on_gpus = gpu_machine(agreed, gpus, true, {});
  EXPECT_EQ(names(on_gpus), Names({"n0.gpu0", "n1.gpu0", "n0.gpu1", "n1.gpu1"}));
  EXPECT_EQ(on_gpus.base.node_of, Nodes({0, 1, 0, 1}));
  const RankMachine on_cpus = host_machine(agreed, {});
  EXPECT_EQ(names(on_cpus), Names({"n0.cpu0", "n1.cpu0", "n0.cpu1", "n1.cpu1"}));
}

TEST(AgreedTopology, GpusThatNobodySeesAreAddedOnTheirHosts) {
  Topology cpus = host();
  cpus = select(cpus, {});
  const AgreedTopology agreed = agreed_on({{"z", cpus}, {"a", cpus}, {"a", cpus}});
  const auto gpus = identities({"0000:00:00.0", "0000:00:00.0", "0000:00:00.0"});
  for (const bool nvlink : {true, false}) {
    const RankMachine machine = gpu_machine(agreed, gpus, nvlink, {});
    validate(machine.topology);
    EXPECT_EQ(names(machine), Names({"gpu-of-rank0", "gpu-of-rank1", "gpu-of-rank1"}));
    const Nodes apart = {0, 1, 1};
    EXPECT_EQ(machine.base.node_of, nvlink ? Nodes({0, 0, 0}) : apart);
  }
}

// Linux shows no NIC of class infiniband: hosts are joined all the same.
TEST(AgreedTopology, HostsWithoutKnownNicsHavePlans) {
  Topology bare;
  bare.name = "live";
  bare.source = "this machine";
  test::add_device(bare, DeviceKind::kCpu, "cpu0");
  test::add_device(bare, DeviceKind::kMemory, "memory0");
  bare.add_link({0, 1, LinkKind::kMemory, 1, 100, ""});
  const AgreedTopology agreed = agreed_on({{"z", bare}, {"a", bare}});
  const RankMachine machine = host_machine(agreed, {});
  EXPECT_EQ(machine.base.node_of, Nodes({0, 1}));
  Tuner tuner(machine, {}, {}, false);
  EXPECT_NO_THROW(tuner.choose({Collective::kAllReduce, 1 << 20}));
}

TEST(AgreedTopology, LongAndShortTextsArriveWhole) {
  std::vector<HostView> views;
  for (const size_t letters : {70'000, 3, 16'384, 40'000}) {
    Topology seen = host();
    seen.notes = {std::string(letters, 'x') + join(letters)};
    views.push_back({"a", seen});
  }
  const AgreedTopology agreed = agreed_on(views);
  std::vector<std::string> notes;
  for (const HostView& view : views) notes.push_back(view.topology.notes[0]);
  EXPECT_EQ(agreed.topology.notes, notes);
}

TEST(AgreedTopology, WhatOneRankCannotReadNobodyGets) {
  const ViewReader good = [] { return HostView{"a", host()}; };
  const ViewReader bad = []() -> HostView { fail(ErrorCode::kSystem, "the driver is asleep"); };
  const Agreement agreement = agree({good, good, bad}, std::vector<Settings>(3));
  test::expect_errors(agreement.outcomes, -1, ErrorCode::kSystem, {"rank 2: the driver is asleep"});
}

TEST(AgreedTopology, ViewsThatContradictEachOtherAreRefusedByAll) {
  const ViewReader one = [] { return HostView{"node", host("a")}; };
  const ViewReader other = [] { return HostView{"node", host("b")}; };
  const Agreement agreement = agree({one, other, one}, std::vector<Settings>(3));
  test::expect_errors(agreement.outcomes, -1, ErrorCode::kInvalidArgument, {"two views of host node do not fit"});
}

TEST(AgreedTopology, ADescribedMachineIsTheSameForAll) {
  const ViewReader nobody_looks = []() -> HostView { fail(ErrorCode::kInternal, "nobody should look"); };
  std::vector<Settings> settings(3);
  for (Settings& it : settings) it.topology = "kesch:nodes=2";
  const Agreement alike = agree({nobody_looks, nobody_looks, nobody_looks}, settings);
  test::expect_all_well(alike.outcomes);
  EXPECT_EQ(alike.of_rank[2].topology, machine("kesch", 2));
  settings[2].topology = "summit";
  const Agreement differ = agree({nobody_looks, nobody_looks, nobody_looks}, settings);
  test::expect_errors(differ.outcomes, -1, ErrorCode::kMismatch, {"PLAIT_TOPOLOGY=", "rank 2", "on rank 0"});
}

TEST(AgreedTopology, LiveViewsNameTheHost) {
  const HostView view = live_view(own_host(""), false);
  EXPECT_FALSE(view.host.empty());
  EXPECT_EQ(view.host.find('\n'), std::string::npos);
  EXPECT_EQ(live_view(own_host(""), false).host, view.host);
  EXPECT_NE(live_view(own_host("other"), false).host, view.host);
}

}  // namespace
}  // namespace plait
