// Ranks that die, stop, sleep or leave. Every other rank must learn in time which rank it was, and none may hang or
// take a wrong result for a right one.
#include <gtest/gtest.h>

#include <thread>

#include "support/expect_outcomes.hpp"
#include "support/failing_ranks.hpp"
#include "support/rank_threads.hpp"
#include "support/seed.hpp"

namespace plait::test {
namespace {

constexpr int kRanks = 4;

Call sum_of(size_t count) { return {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}; }

// Calls that take several slices and therefore some time.
Call long_call(Collective collective, int root) {
  return {collective, DataType::kInt32, ReduceOp::kSum, has_root(collective) ? root : 0,
          has_rank_blocks(collective) ? size_t{10'000} : size_t{40'000}};
}

// "rank 2 (process 77)"
std::string named(const RankProcesses& ranks, int rank) { return join("rank ", rank, " (process ", ranks.pid(rank)); }

TEST(Faults, ARankThatIsKilledInTheMiddleOfACall) {
  Random random(run_seed());
  for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce,
                                      Collective::kReduceScatter, Collective::kAllGather, Collective::kBarrier}) {
    for (int round = 0; round < 3; ++round) {
      const int victim = static_cast<int>(random() % kRanks);
      const int root = static_cast<int>(random() % kRanks);
      Shared<Progress> progress;
      RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                            call_until_error(communicator, [&](int i) {
                              if (collective == Collective::kBarrier) {
                                communicator.barrier();
                              } else {
                                call_and_check(communicator, long_call(collective, root), i);
                              }
                              ++progress->calls[communicator.rank()];
                            });
                          }));
      await_calls(ranks, *progress, victim, static_cast<int>(random() % 20));
      ::usleep(static_cast<useconds_t>(random() % 3000));
      const std::string name = named(ranks, victim);
      ranks.kill(victim);
      const Outcomes outcomes = ranks.wait(kLimit);
      EXPECT_EQ(outcomes[static_cast<size_t>(victim)].end, Outcome::End::kKilled);
      if (progress->calls[victim] == 0) continue;  // killed before the ranks had met
      expect_errors(outcomes, victim, ErrorCode::kPeerFailed,
                    {name, "has died while", plait::name(collective), "call "});
    }
  }
}

TEST(Faults, ARankThatIsKilledBeforeItsFirstCall) {
  Shared<Progress> progress;
  RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                        progress->calls[communicator.rank()] = 1;
                        if (communicator.rank() == 2) sleep_for_ever();
                        call_until_error(communicator, [&](int i) { call_and_check(communicator, sum_of(100), i); });
                      }));
  await_calls(ranks, *progress, 2, 1);
  const std::string name = named(ranks, 2);
  ranks.kill(2);
  expect_errors(ranks.wait(kLimit), 2, ErrorCode::kPeerFailed,
                {name, "has died", "never made a call", "all_reduce of 100 int32 (sum)"});
}

TEST(Faults, ARankThatIsKilledBetweenCalls) {
  Shared<Progress> progress;
  RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                        call_until_error(communicator, [&](int i) {
                          if (communicator.rank() == 0 && i == 3) {
                            progress->calls[0] = 3;
                            sleep_for_ever();
                          }
                          call_and_check(communicator, sum_of(200), i);
                        });
                      }));
  await_calls(ranks, *progress, 0, 3);
  const std::string name = named(ranks, 0);
  ranks.kill(0);
  expect_errors(ranks.wait(kLimit), 0, ErrorCode::kPeerFailed,
                {name, "has died", "in call 4", "last completed call 3, all_reduce of 200 int32 (sum)"});
}

TEST(Faults, ARankThatEndsWithoutAWord) {
  RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                        call_and_check(communicator, sum_of(100));
                        if (communicator.rank() == 1) ::_exit(0);
                        call_until_error(communicator, [&](int i) { call_and_check(communicator, sum_of(100), i); });
                      }));
  expect_errors(ranks.wait(kLimit), 1, ErrorCode::kPeerFailed, {named(ranks, 1), "has died", "last completed call 1"});
}

TEST(Faults, ARankThatClosesItsCommunicatorEarly) {
  for (const int calls : {0, 2}) {
    RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                          for (int i = 0; i < calls; ++i) call_and_check(communicator, sum_of(100));
                          if (communicator.rank() == 3) return;
                          call_until_error(communicator, [&](int i) { call_and_check(communicator, sum_of(100), i); });
                        }));
    const Outcomes outcomes = ranks.wait(kLimit);
    EXPECT_TRUE(outcomes[3].well());
    expect_errors(outcomes, 3, ErrorCode::kPeerFailed,
                  {named(ranks, 3), "closed its communicator",
                   calls == 0 ? "never made a call" : "last completed call 2, all_reduce of 100 int32 (sum)"});
  }
}

// Who waits for a rank by other means asks how it has gone.
TEST(Faults, ARankThatHasGoneIsSeenWithoutACall) {
  const Outcomes outcomes = run_processes(
      3, kLimit, with_communicator(3, fault_settings(), [&](Communicator& communicator) {
        call_and_check(communicator, sum_of(100));
        if (communicator.rank() == 1) return;
        if (communicator.rank() == 2) ::_exit(0);
        const auto departure = [&](int rank) {
          while (communicator.departure(rank).empty()) ::usleep(1000);
          return communicator.departure(rank);
        };
        const std::string last = "; of collectives, rank ", call = " last completed call 1, all_reduce of 100 int32";
        for (const auto& [rank, how] : {std::pair(1, ") closed its communicator"), std::pair(2, ") has died")}) {
          const std::string words = departure(rank);
          require(words.starts_with(join("rank ", rank, " (process ")), words);
          require(words.find(join(how, last, rank, call)) != words.npos, words);
        }
        require(communicator.departure(0).empty(), "rank 0 has not gone");
      }));
  EXPECT_TRUE(outcomes[0].well()) << describe(outcomes[0]);
}

// Closing after the last common call is not a fault, however far behind the others are.
TEST(Faults, ARankThatClosesAfterTheLastCallHarmsNobody) {
  for (int round = 0; round < 10; ++round) {
    expect_all_well(run_processes(
        3, kLimit, with_communicator(3, fault_settings(), [&](Communicator& communicator) {
          for (int i = 0; i < 3; ++i) {
            if (communicator.rank() == 2) ::usleep(2000);
            call_and_check(communicator, {Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 0, 999}, i);
          }
        })));
  }
}

TEST(Faults, ARankThatIsStoppedInTheMiddleOfACall) {
  Random random(run_seed() + 1);
  for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduceScatter}) {
    const int victim = static_cast<int>(random() % kRanks);
    Shared<Progress> progress;
    RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                          call_until_error(communicator, [&](int i) {
                            call_and_check(communicator, long_call(collective, 0), i);
                            ++progress->calls[communicator.rank()];
                          });
                        }));
    await_calls(ranks, *progress, victim, 5);
    ::usleep(static_cast<useconds_t>(random() % 2000));
    ranks.signal(victim, SIGSTOP);
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto begin = std::chrono::steady_clock::now();
      while (rank != victim && !ranks.has_ended(rank) && seconds_since(begin) < 15) ::usleep(10'000);
    }
    ranks.signal(victim, SIGCONT);  // it learns of the failure, too
    expect_errors(ranks.wait(kLimit), -1, ErrorCode::kTimeout,
                  {named(ranks, victim) + ", stopped by a signal) ", "PLAIT_TIMEOUT_SEC", "call "});
  }
}

// A rank is stopped while it waits itself. It seems to be waiting, but it is the culprit.
TEST(Faults, ARankThatIsStoppedWhileItWaits) {
  Shared<Progress> progress;
  RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                        call_until_error(communicator, [&](int i) {
                          progress->calls[communicator.rank()] = i + 1;
                          if (i == 2 && communicator.rank() == 0) sleep_seconds(0.6);
                          call_and_check(communicator, long_call(Collective::kAllReduce, 0), i);
                        });
                      }));
  await_calls(ranks, *progress, 2, 3);
  sleep_seconds(0.2);
  ranks.signal(2, SIGSTOP);
  for (const int rank : {0, 1, 3}) {
    const auto begin = std::chrono::steady_clock::now();
    while (!ranks.has_ended(rank) && seconds_since(begin) < 15) ::usleep(10'000);
  }
  ranks.signal(2, SIGCONT);
  expect_errors(ranks.wait(kLimit), -1, ErrorCode::kTimeout, {named(ranks, 2) + ", stopped by a signal) "});
}

// A job that is stopped as a whole, as by a shell, goes on where it was. No rank is blamed for that time.
TEST(Faults, AJobThatIsStoppedAndContinued) {
  Shared<Progress> progress;
  RankProcesses ranks(3, with_communicator(3, fault_settings(), [&](Communicator& communicator) {
                        for (int i = 0; i < 3; ++i) {
                          progress->calls[communicator.rank()] = i + 1;
                          if (i == 1 && communicator.rank() == 0) sleep_seconds(0.6);
                          call_and_check(communicator, long_call(Collective::kAllReduce, 0), i);
                        }
                      }));
  for (const int rank : {0, 1, 2}) await_calls(ranks, *progress, rank, 2);
  sleep_seconds(0.2);  // ranks 1 and 2 wait, rank 0 does not
  for (int rank = 0; rank < 3; ++rank) ranks.signal(rank, SIGSTOP);
  sleep_seconds(kFaultTimeout * 1.5);
  for (const int rank : {1, 2, 0}) ranks.signal(rank, SIGCONT);
  expect_all_well(ranks.wait(kLimit));
}

TEST(Faults, ARankThatNeverCalls) {
  for (const int calls : {0, 1}) {
    RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                          for (int i = 0; i < calls; ++i) call_and_check(communicator, sum_of(100));
                          if (communicator.rank() == 1) sleep_for_ever();
                          call_until_error(communicator, [&](int i) { call_and_check(communicator, sum_of(300), i); });
                        }));
    for (const int rank : {0, 2, 3}) {
      while (!ranks.has_ended(rank)) ::usleep(10'000);
    }
    const std::string name = named(ranks, 1);
    ranks.kill(1);
    expect_errors(ranks.wait(kLimit), 1, ErrorCode::kTimeout,
                  {name + ", sleeping) ", "waited more than 1 s (PLAIT_TIMEOUT_SEC)", "all_reduce of 300 int32 (sum)",
                   calls == 0 ? "never made a call" : "last completed call 1, all_reduce of 100 int32 (sum)"});
  }
}

// The wait for scratch memory that a slow rank still uses is bounded, too.
TEST(Faults, ARankThatFallsBehindCallsThatDoNotSynchronise) {
  RankProcesses ranks(3, with_communicator(3, fault_settings(), [&](Communicator& communicator) {
                        if (communicator.rank() == 2) sleep_for_ever();
                        call_until_error(communicator, [&](int i) {
                          call_and_check(communicator, {Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, 0, 50},
                                         i);
                        });
                      }));
  for (const int rank : {0, 1}) {
    while (!ranks.has_ended(rank)) ::usleep(10'000);
  }
  const std::string name = named(ranks, 2);
  ranks.kill(2);
  expect_errors(ranks.wait(kLimit), 2, ErrorCode::kTimeout, {name, "never made a call"});
}

TEST(Faults, AbortFromAnotherThread) {
  const Outcomes outcomes = run_threads(kRanks, fault_settings(), [](Communicator& communicator) {
    call_and_check(communicator, sum_of(100));
    std::thread helper;
    if (communicator.rank() == 3) {
      helper = std::thread([&] {
        ::usleep(20'000);
        communicator.abort("somebody pressed the button");
      });
    }
    Outcome outcome = outcome_of(
        [&](int rank) {
          if (rank == 0) ::usleep(100'000);  // comes after the abort
          call_until_error(communicator, [&](int) { communicator.barrier(); });
        },
        communicator.rank());
    if (helper.joinable()) helper.join();
    require(outcome.end == Outcome::End::kError, describe(outcome));
    throw Error(outcome.code, outcome.text);
  });
  expect_errors(outcomes, -1, ErrorCode::kPeerFailed, {"rank 3 aborted: somebody pressed the button"});
}

TEST(Faults, AbortEndsRanksInOtherProcesses) {
  RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                        call_and_check(communicator, sum_of(100));
                        if (communicator.rank() == 1) communicator.abort("out of luck");
                        call_until_error(communicator, [&](int i) { call_and_check(communicator, sum_of(100), i); });
                      }));
  expect_errors(ranks.wait(kLimit), -1, ErrorCode::kPeerFailed, {"rank 1 aborted: out of luck"});
}

// A child that a rank forks, and that ends with all destructors, is not the rank.
TEST(Faults, AForkedChildDoesNotCloseItsParentsCommunicator) {
  expect_all_well(run_processes(3, kLimit, with_communicator(3, fault_settings(), [&](Communicator& communicator) {
                                  call_and_check(communicator, sum_of(100));
                                  const pid_t child = ::fork();
                                  if (child == 0) {
                                    {
                                      const Communicator inherited = std::move(communicator);
                                    }
                                    ::_exit(0);
                                  }
                                  ::waitpid(child, nullptr, 0);
                                  // The others wait here, and examine their peers, long enough to see a closed rank.
                                  if (communicator.rank() == 1) sleep_seconds(0.3);
                                  call_and_check(communicator, sum_of(100));
                                })));
}

// A child that called a collective would speak for its parent, with memory that it no longer shares.
TEST(Faults, AForkedChildCannotCall) {
  expect_all_well(run_processes(2, kLimit, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                                  call_and_check(communicator, sum_of(100));
                                  const pid_t child = ::fork();
                                  if (child == 0) {
                                    const Outcome outcome =
                                        outcome_of([&](int) { communicator.barrier(); }, communicator.rank());
                                    communicator.abort("a child has no say");
                                    const bool refused = outcome.end == Outcome::End::kError &&
                                                         outcome.code == ErrorCode::kInvalidArgument &&
                                                         outcome.text.find("forked") != std::string::npos;
                                    ::_exit(refused ? 0 : 1);
                                  }
                                  int status = 0;
                                  ::waitpid(child, &status, 0);
                                  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child was not refused");
                                  call_and_check(communicator, sum_of(100));
                                })));
}

}  // namespace
}  // namespace plait::test
