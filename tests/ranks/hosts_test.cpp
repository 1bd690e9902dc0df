// Ranks find out which hosts they are on. One machine stands in for several.
#include "runtime/hosts.hpp"

#include <gtest/gtest.h>

#include "support/expect_outcomes.hpp"
#include "support/several_hosts.hpp"
#include "support/system.hpp"

namespace plait::test {
namespace {

BootstrapOptions in_time() { return {{kLimit / 2, Logger()}, {}}; }

TEST(Hosts, AreNumberedInTheOrderOfTheirFirstRanks) {
  const UniqueId id = new_id();
  expect_all_well(run_processes(6, kLimit, [&](int rank) {
    const char* const names[] = {"z", "a", "z", "b", "a", "z"};
    Bootstrap bootstrap = Bootstrap::create(id, rank, 6, in_time());
    const Hosts hosts = Hosts::meet(bootstrap, own_host(names[rank]));
    require(hosts.count() == 3, "three hosts, not ", hosts.count());
    require(hosts.node_of_rank() == std::vector<int>({0, 1, 0, 2, 1, 0}), "hosts of ranks");
    require(hosts.ranks_of(1) == std::vector<int>({1, 4}), "ranks of a host");
    require(hosts.name(2).starts_with("b of "), "the name of a host is ", hosts.name(2));
    Bootstrap on_host = hosts.meet_on_host(bootstrap);
    const std::vector<int> all = on_host.all_gather(rank);
    require(all == hosts.ranks_of(hosts.node_of(rank)), "the ranks of a host meet in their order");
  }));
}

// Rank 3 is rank 1 of the second host, whose ranks wait for it among themselves.
TEST(Hosts, ErrorsOfTheRanksOfAHostSayWhoseNumbersTheyHave) {
  const UniqueId id = new_id();
  const Outcomes outcomes = run_processes(4, kLimit, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 4, {{rank == 2 ? 0.3 : kLimit / 2, Logger()}, {}});
    const Hosts hosts = Hosts::meet(bootstrap, own_host(rank < 2 ? "left" : "right"));
    if (rank == 3) {
      bootstrap.all_gather(UniqueId());
      return;
    }
    Bootstrap on_host = hosts.meet_on_host(bootstrap);
    on_host.barrier();
  });
  EXPECT_TRUE(outcomes[0].well() && outcomes[1].well());
  EXPECT_EQ(objection(outcomes[2], ErrorCode::kTimeout, {"rank 1 of 2 ", "right of ", "which has ranks 2 and 3"}), "");
}

TEST(Hosts, TextsOfAnyLengthAreGathered) {
  Random random(run_seed());
  std::vector<std::string> texts;
  for (int rank = 0; rank < 5; ++rank) {
    std::string& text = texts.emplace_back(one_in(random, 3) ? 0 : between(random, 1, 20'000), ' ');
    for (char& letter : text) letter = static_cast<char>(random());
  }
  const UniqueId id = new_id();
  expect_all_well(run_processes(5, kLimit, [&](int rank) {
    Bootstrap bootstrap = Bootstrap::create(id, rank, 5, in_time());
    require(bootstrap.all_gather_texts(texts[rank]) == texts, "texts are gathered by rank");
    require(bootstrap.all_gather_texts("") == std::vector<std::string>(5), "empty ones as well");
  }));
}

TEST(Hosts, ANetworkNamespaceIsAHostOfItsOwn) {
  const HostIdentity outside = own_host("");
  const Outcome outcome = run_processes(1, kLimit, [&](int) {
    if (!enter_namespaces(CLONE_NEWNET)) return;
    require(!own_host("").is_of_one_host_with(outside), "names of sockets do not lead out of a network namespace");
  })[0];
  EXPECT_TRUE(outcome.well()) << describe(outcome);
  EXPECT_TRUE(own_host("").is_of_one_host_with(outside));
  EXPECT_FALSE(own_host("a").is_of_one_host_with(own_host("b")));
}

TEST(Hosts, WithoutUcxACommunicatorOverSeveralIsRefusedByAllRanks) {
  const UniqueId id = new_id();
  const Outcomes outcomes = run_processes(4, kLimit, [&](int rank) {
    Settings settings = fault_settings();
    settings.host_id = rank < 3 ? "left" : "right";
    if (rank == 2) settings.ucx_library = "/nowhere/libucp.so.0";
    Communicator::create(id, rank, 4, settings);
  });
  expect_errors(outcomes, -1, ErrorCode::kResources,
                {"on 2 hosts (ranks 0, 1 and 2 on left of ", "rank 3 on right of ", "PLAIT_HOST_ID", "install"});
  if (has_transport() && missing_network().empty()) {
    expect_errors(outcomes, -1, ErrorCode::kResources, {"rank 2 does not", "PLAIT_UCX_LIBRARY", "/nowhere/"});
  }
}

TEST(Hosts, RanksOfOneHostIdMakeACommunicator) {
  const UniqueId id = new_id();
  expect_all_well(run_processes(3, kLimit, [&](int rank) {
    Settings settings = fault_settings();
    settings.host_id = "here";
    Communicator communicator = Communicator::create(id, rank, 3, settings);
    call_and_check(communicator, {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 100});
    communicator.close();
  }));
}

}  // namespace
}  // namespace plait::test
