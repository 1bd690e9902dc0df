// Ranks on several hosts, of which one machine takes the part, with UCX between them: results are right to the bit, and
// what ends on one host is told on all. Skipped where there is no UCX.
#include <gtest/gtest.h>

#include "api/split.hpp"
#include "support/expect_outcomes.hpp"
#include "support/random_calls.hpp"
#include "support/random_messages.hpp"
#include "support/several_hosts.hpp"

namespace plait::test {
namespace {

class OverNetwork : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = missing_network();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

Call sum_of(size_t count) { return {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}; }

std::string text_of(const std::vector<int>& hosts) {
  std::string text = "hosts";
  for (const int host : hosts) text += join(" ", host);
  return text;
}

// What a communicator says of a rank of another host, or of its own.
std::string named(const RankProcesses& ranks, int rank) { return join("rank ", rank, " (process ", ranks.pid(rank)); }

TEST_F(OverNetwork, RandomSequences) {
  constexpr size_t kMostBytes = 200'000;
  Random random(run_seed());
  for (int round = 0; round < 8; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 5);
    const std::vector<int> hosts = random_hosts(random, ranks);
    Sequence sequence = random_sequence(random(), ranks, 40, kMostBytes);
    sequence.name = text_of(hosts);
    sequence.settings.scratch_bytes = size_t{64} << 10 << random() % 3;
    sequence.settings.algorithm = "";  // those that are pinned may be for one host
    expect_all_well(run_processes(ranks, kLimit, over_hosts(hosts, sequence.settings, [&](Communicator& communicator) {
                                    SequenceRunner(communicator, sequence).run();
                                  })));
    if (HasFailure()) return;
  }
}

// AWA-01, AWA-11: a level between hosts, and one inside of each, from any root. Every algorithm is on either level.
TEST_F(OverNetwork, BroadcastsByLevels) {
  Random random(run_seed());
  std::vector<std::string_view> names;
  for (const LevelAlgorithm& it : level_algorithms()) {
    if (serves(it, Collective::kBroadcast)) names.push_back(it.name);
  }
  std::vector<std::string_view> inner = names;
  std::ranges::shuffle(inner, random);
  for (size_t i = 0; i < names.size(); ++i) {
    Settings settings = fault_settings();
    settings.timeout_seconds = 30;
    settings.algorithm =
        join("broadcast:hierarchical(node: ", inner[i], ", all: ", names[i], ", parts=", 1 + random() % 3, ")");
    SCOPED_TRACE(settings.algorithm);
    expect_all_well(run_processes(6, kLimit, over_hosts({0, 0, 1, 1, 2, 2}, settings, [](Communicator& communicator) {
                                    for (int root = 0; root < 6; ++root) {
                                      const size_t count = 1 + static_cast<size_t>(root) * 33'331;
                                      call_and_check(communicator, {Collective::kBroadcast, DataType::kInt32,
                                                                    ReduceOp::kSum, root, count});
                                    }
                                  })));
    if (HasFailure()) return;
  }
}

// Long enough for messages that UCX moves in another way than short ones.
TEST_F(OverNetwork, LargeMessages) {
  const std::vector<int> hosts{0, 0, 1};
  Settings settings = fault_settings();
  settings.timeout_seconds = 30;
  settings.scratch_bytes = size_t{8} << 20;
  expect_all_well(run_processes(3, kLimit, over_hosts(hosts, settings, [](Communicator& communicator) {
                                  for (int i = 0; i < 3; ++i) call_and_check(communicator, sum_of(3'000'001), i);
                                  call_and_check(communicator, {Collective::kAllToAll, DataType::kFloat64,
                                                                ReduceOp::kSum, 0, 400'003});
                                })));
}

TEST_F(OverNetwork, Messages) {
  Random random(run_seed());
  for (int round = 0; round < 4; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 4);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const uint64_t seed = random();
    Settings settings = fault_settings();
    settings.timeout_seconds = 30;
    expect_all_well(
        run_processes(ranks, kLimit,
                      over_hosts(hosts, settings,
                                 [&](Communicator& communicator) {
                                   Random common(seed), own(seed + static_cast<uint64_t>(communicator.rank()) + 1);
                                   for (int i = 0; i < 12; ++i) {
                                     exchange_letters(communicator, random_letters(common, ranks, 4 * ranks, 300'000),
                                                      own);
                                     if (one_in(common, 3)) call_and_check(communicator, sum_of(common() % 3000), i);
                                   }
                                 })),
        text_of(hosts));
    if (HasFailure()) return;
  }
}

// A rank that computes answers all the same: nobody waits for it only to connect and get rid of a message.
TEST_F(OverNetwork, WhoSendsDoesNotWaitForARankInNoCall) {
  expect_all_well(run_processes(2, kLimit, over_hosts({0, 1}, fault_settings(), [](Communicator& communicator) {
                                  if (communicator.rank() == 1) sleep_seconds(2 * kFaultTimeout);
                                  const Call call{Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 0, 3000};
                                  for (int i = 0; i < 3; ++i) call_and_check(communicator, call, i);
                                })));
}

TEST_F(OverNetwork, ARankThatIsKilledInACallIsNamedOnAllHosts) {
  Random random(run_seed());
  for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kAllToAll}) {
    const int ranks = 4, victim = static_cast<int>(random() % ranks);
    Settings settings = fault_settings();
    settings.timeout_seconds = 10 * kLimit;  // no test succeeds by waiting for that
    Shared<Progress> progress;
    RankProcesses processes(ranks, over_hosts({0, 0, 1, 1}, settings, [&](Communicator& communicator) {
                              for (int i = 0;; ++i) {
                                call_and_check(communicator, {collective, DataType::kInt32, ReduceOp::kSum, 0, 20'000},
                                               i);
                                ++progress->calls[communicator.rank()];
                              }
                            }));
    await_calls(processes, *progress, victim, static_cast<int>(1 + random() % 10));
    ::usleep(static_cast<useconds_t>(random() % 3000));
    const std::string name = named(processes, victim);
    processes.kill(victim);
    expect_errors(processes.wait(kLimit), victim, ErrorCode::kPeerFailed, {name, "has died"});
  }
}

TEST_F(OverNetwork, AnAbortReachesAllHosts) {
  const Outcomes outcomes =
      run_processes(4, kLimit, over_hosts({0, 1, 1, 0}, fault_settings(), [](Communicator& communicator) {
                      call_and_check(communicator, sum_of(100));
                      if (communicator.rank() == 2) {
                        communicator.abort("somebody pressed the button");
                        communicator.barrier();
                      }
                      call_until_error(communicator, [&](int i) { call_and_check(communicator, sum_of(100), i); });
                    }));
  expect_errors(outcomes, -1, ErrorCode::kPeerFailed, {"rank 2 aborted: somebody pressed the button"});
}

TEST_F(OverNetwork, DifferentCallsAreFound) {
  const Outcomes outcomes =
      run_processes(3, kLimit, over_hosts({0, 0, 1}, fault_settings(), [](Communicator& communicator) {
                      call_and_check(communicator, sum_of(100));
                      call_and_check(communicator, sum_of(communicator.rank() == 2 ? 300u : 200u));
                    }));
  expect_errors(outcomes, -1, ErrorCode::kMismatch, {"200 int32", "300 int32"});
}

TEST_F(OverNetwork, MessagesOfDifferentSizesAreFound) {
  for (const size_t received : {99u, 101u}) {
    const Outcomes outcomes =
        run_processes(2, kLimit, over_hosts({0, 1}, fault_settings(), [&](Communicator& communicator) {
                        std::vector<std::byte> data(200);
                        if (communicator.rank() == 0) communicator.send(data.data(), 100, DataType::kUint8, 1);
                        if (communicator.rank() == 1) communicator.receive(data.data(), received, DataType::kUint8, 0);
                        communicator.barrier();
                      }));
    expect_errors(outcomes, -1, ErrorCode::kMismatch, {"message 1 from rank 0 to rank 1", join(received, " uint8")});
  }
}

TEST_F(OverNetwork, ARankThatDoesNotComeIsATimeoutThatNamesIt) {
  const Outcomes outcomes =
      run_processes(3, kLimit, over_hosts({0, 0, 1}, fault_settings(), [](Communicator& communicator) {
                      call_and_check(communicator, sum_of(100));
                      if (communicator.rank() == 2) sleep_seconds(3 * kFaultTimeout);
                      call_and_check(communicator, sum_of(100));
                    }));
  expect_errors(outcomes, -1, ErrorCode::kTimeout, {"PLAIT_TIMEOUT_SEC", "rank 2 (process ", " on host1 of "});
}

// Closing after the last common call is not a fault, however far behind the others are.
TEST_F(OverNetwork, WhoClosesAfterTheLastCallHarmsNobody) {
  Random random(run_seed());
  for (int round = 0; round < 6; ++round) {
    const std::vector<int> hosts = random_hosts(random, 4);
    const int late = static_cast<int>(random() % 4), root = static_cast<int>(random() % 4);
    expect_all_well(
        run_processes(4, kLimit,
                      over_hosts(hosts, fault_settings(),
                                 [&](Communicator& communicator) {
                                   for (int i = 0; i < 3; ++i) {
                                     if (communicator.rank() == late) ::usleep(20'000);
                                     call_and_check(
                                         communicator,
                                         {Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, root, 99'999}, i);
                                   }
                                 })),
        join(text_of(hosts), ", root ", root, ", late rank ", late));
  }
}

TEST_F(OverNetwork, ACommunicatorCanBeDivided) {
  expect_all_well(run_processes(4, kLimit, over_hosts({0, 0, 1, 1}, fault_settings(), [](Communicator& communicator) {
                                  SplitRequest request;
                                  request.color = communicator.rank() % 2;
                                  request.settings = communicator.settings();
                                  std::optional<Communicator> half = split(communicator, request);
                                  require(half && half->size() == 2, "half of four ranks");
                                  call_and_check(*half, sum_of(1000));
                                  half->close();
                                  call_and_check(communicator, sum_of(1000));
                                })));
}

// A child has neither the thread nor the connections.
TEST_F(OverNetwork, AForkedChildThatEndsHarmsNobody) {
  expect_all_well(run_processes(2, kLimit, over_hosts({0, 1}, fault_settings(), [](Communicator& communicator) {
                                  call_and_check(communicator, sum_of(1000));
                                  const pid_t child = ::fork();
                                  if (child == 0) {
                                    {
                                      const Communicator copy = std::move(communicator);
                                    }
                                    ::_exit(0);
                                  }
                                  ::waitpid(child, nullptr, 0);
                                  call_and_check(communicator, sum_of(1000));
                                })));
}

}  // namespace
}  // namespace plait::test
