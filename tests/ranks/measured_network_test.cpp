// Ranks on several hosts measure their network before the first long call, agree on its rate, and fail in the middle of
// it as in a call. Skipped where there is no UCX.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/expect_outcomes.hpp"
#include "support/random_calls.hpp"
#include "support/several_hosts.hpp"
#include "tuner/tuner.hpp"

namespace plait::test {
namespace {

constexpr const char* kRdmaDevices = "/sys/class/infiniband";

class NetworkRate : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = missing_network();
    if (!missing.empty()) GTEST_SKIP() << missing;
    if (std::filesystem::exists(kRdmaDevices) && !std::filesystem::is_empty(kRdmaDevices))
      GTEST_SKIP() << "an RDMA device tells";
  }
};

constexpr size_t kLong = size_t{1} << 18;  // elements

Call sum_of(size_t count) { return {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}; }

Settings patient() {
  Settings settings = fault_settings();
  settings.timeout_seconds = 30;
  return settings;
}

std::string network_of(const Communicator& communicator) { return communicator.tuner().network().text(); }
bool is_measured(const Communicator& communicator) { return network_of(communicator).ends_with("measured"); }

// All ranks have one rate, or they would not have the same plans.
void require_same_network(Communicator& communicator) {
  const double own = communicator.tuner().network().gbps;
  std::vector<double> all(static_cast<size_t>(communicator.size()));
  communicator.all_gather(&own, all.data(), 1, DataType::kFloat64);
  for (const double gbps : all) require(gbps == own && gbps > 0, join("all ranks have ", own, " GB/s, one ", gbps));
}

TEST_F(NetworkRate, AllRanksAgree) {
  Random random(run_seed());
  for (const std::vector<int>& hosts :
       {std::vector{0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 1, 2}, random_hosts(random, 6)}) {
    expect_all_well(run_processes(static_cast<int>(hosts.size()), kLimit,
                                  over_hosts(hosts, patient(), [](Communicator& communicator) {
                                    for (int i = 0; i < 3; ++i) call_and_check(communicator, sum_of(1000), i);
                                    require(!is_measured(communicator), "short calls measure nothing");
                                    for (int i = 0; i < 3; ++i) {
                                      call_and_check(communicator, sum_of(kLong), i);
                                      require(is_measured(communicator), "a long call measures");
                                    }
                                    require_same_network(communicator);
                                    for (int i = 0; i < 3; ++i) call_and_check(communicator, sum_of(1000), i);
                                  })));
    if (HasFailure()) return;
  }
}

// Whatever the first long call is, and whatever was under way.
TEST_F(NetworkRate, ComesBeforeAnyCollective) {
  for (const Collective collective : {Collective::kBroadcast, Collective::kAllGather, Collective::kReduceScatter,
                                      Collective::kGather, Collective::kAllToAll}) {
    expect_all_well(
        run_processes(3, kLimit, over_hosts({0, 1, 1}, patient(), [&](Communicator& communicator) {
                        int letter = communicator.rank();  // on its way while they measure
                        if (communicator.rank() == 0) communicator.send(&letter, 1, DataType::kInt32, 2);
                        call_and_check(communicator, {collective, DataType::kInt32, ReduceOp::kSum, 0, kLong});
                        if (communicator.rank() == 2) communicator.receive(&letter, 1, DataType::kInt32, 0);
                        require(letter == (communicator.rank() == 2 ? 0 : communicator.rank()), "the letter");
                        require(is_measured(communicator), "a long call measures");
                        require_same_network(communicator);
                      })));
    if (HasFailure()) return;
  }
}

TEST_F(NetworkRate, IsNotMeasuredWhereItDoesNotMatter) {
  Settings off = patient(), given = patient(), pinned = patient();
  off.network_gbits = "off";
  given.network_gbits = "2.5";
  pinned.algorithm = "all_reduce:ring";
  for (const Settings& settings : {off, given, pinned}) {
    expect_all_well(run_processes(2, kLimit, over_hosts({0, 1}, settings, [&](Communicator& communicator) {
                                    const std::string before = network_of(communicator);
                                    call_and_check(communicator, sum_of(kLong));
                                    require(network_of(communicator) == before && !is_measured(communicator), before);
                                    if (settings.network_gbits != "2.5") return;
                                    require(communicator.tuner().network().gbps == 0.3125, "2.5 Gbit/s");
                                    require(before.find("PLAIT_NETWORK_GBITS") != before.npos, "where it is from");
                                  })));
  }
}

TEST_F(NetworkRate, MustBeAskedForAlike) {
  const UniqueId id = new_id();
  const Outcomes outcomes = run_processes(2, kLimit, [&](int rank) {
    Settings settings = patient();
    settings.host_id = host_name(rank);
    settings.network_gbits = rank == 0 ? "auto" : "10";
    Communicator::create(id, rank, 2, settings);
  });
  expect_errors(outcomes, -1, ErrorCode::kMismatch, {"PLAIT_NETWORK_GBITS differs between ranks"});
}

TEST_F(NetworkRate, AParkedRankIsTimedOut) {
  for (const int parked : {1, 2}) {  // the second on its host, and the first one
    const Outcomes outcomes =
        run_processes(4, kLimit, over_hosts({0, 0, 1, 1}, fault_settings(), [&](Communicator& communicator) {
                        call_and_check(communicator, sum_of(10));
                        if (communicator.rank() == parked) sleep_seconds(10 * kFaultTimeout);
                        call_and_check(communicator, sum_of(kLong));
                      }));
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(objection(outcome, ErrorCode::kTimeout, {"the network", "PLAIT_NETWORK_GBITS"}), "") << parked;
    }
  }
}

TEST_F(NetworkRate, ARankThatDiesBeforeIsNamed) {
  for (const int victim : {0, 1, 2, 3}) {
    Settings settings = fault_settings();
    settings.timeout_seconds = 10 * kLimit;  // no test succeeds by waiting for that
    Shared<Progress> progress;
    RankProcesses processes(4, over_hosts({0, 0, 1, 1}, settings, [&](Communicator& communicator) {
                              call_and_check(communicator, sum_of(10));
                              ++progress->calls[communicator.rank()];
                              if (communicator.rank() == victim) sleep_seconds(10 * kLimit);
                              call_and_check(communicator, sum_of(kLong));
                            }));
    for (int rank = 0; rank < 4; ++rank) await_calls(processes, *progress, rank, 1);
    sleep_seconds(0.1);  // until they wait for it
    const std::string name = join("rank ", victim, " (process ", processes.pid(victim));
    processes.kill(victim);
    expect_errors(processes.wait(kLimit), victim, ErrorCode::kPeerFailed, {name, "has died"});
  }
}

// At any moment, in messages and in agreements.
TEST_F(NetworkRate, ARankThatDiesMeanwhileIsNamed) {
  Random random(run_seed());
  for (int round = 0; round < 6; ++round) {
    const int victim = static_cast<int>(random() % 4);
    Settings settings = fault_settings();
    settings.timeout_seconds = 10 * kLimit;
    Shared<Progress> progress;
    RankProcesses processes(4, over_hosts({0, 0, 1, 1}, settings, [&](Communicator& communicator) {
                              call_and_check(communicator, sum_of(10));
                              ++progress->calls[communicator.rank()];
                              for (int i = 0;; ++i) call_and_check(communicator, sum_of(kLong), i);
                            }));
    await_calls(processes, *progress, victim, 1);
    ::usleep(static_cast<useconds_t>(random() % 8000));
    const std::string name = join("rank ", victim, " (process ", processes.pid(victim));
    processes.kill(victim);
    expect_errors(processes.wait(kLimit), victim, ErrorCode::kPeerFailed, {name, "has died"});
  }
}

TEST_F(NetworkRate, DifferentCallsAreNamed) {
  const Outcomes outcomes = run_processes(2, kLimit, over_hosts({0, 1}, patient(), [](Communicator& communicator) {
                                            call_and_check(communicator, sum_of(10));
                                            call_and_check(communicator, sum_of(communicator.rank() == 0 ? kLong : 10));
                                          }));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(objection(outcome, ErrorCode::kMismatch,
                        {"all_reduce of 262144 int32 (sum), before which", "all_reduce of 10 int32 (sum)"}),
              "");
  }
}

}  // namespace
}  // namespace plait::test
