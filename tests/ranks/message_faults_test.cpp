// Messages whose other end differs, dies, stops, leaves or never comes. Ranks that wait learn in time which rank it
// was, and what was sent before stays good.
#include <gtest/gtest.h>

#include "base/figures.hpp"
#include "support/expect_outcomes.hpp"
#include "support/failing_ranks.hpp"
#include "support/random_messages.hpp"
#include "support/rank_threads.hpp"

namespace plait::test {
namespace {

constexpr size_t kLarge = 4'000'000;  // more than a FIFO holds

std::string named(const RankProcesses& ranks, int rank) { return join("rank ", rank, " (process ", ranks.pid(rank)); }

void send_bytes(Communicator& communicator, size_t bytes, int peer) {
  LetterBuffer buffer({communicator.rank(), peer, DataType::kUint8, bytes, 9}, 0, true);
  communicator.send(buffer.data(), bytes, DataType::kUint8, peer);
}

void receive_bytes(Communicator& communicator, size_t bytes, int peer) {
  LetterBuffer buffer({peer, communicator.rank(), DataType::kUint8, bytes, 9}, 0, false);
  communicator.receive(buffer.data(), bytes, DataType::kUint8, peer);
  buffer.check();
}

const Call kSum{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 100};

using Body = std::function<void(Communicator&)>;

// Each body is one call that must fail in time and leave the communicator dead.
void fails(Communicator& communicator, const Body& body) {
  call_until_error(communicator, [&](int) { body(communicator); });
}

void wait_until_ended(const RankProcesses& ranks, const std::vector<int>& which) {
  const auto begin = std::chrono::steady_clock::now();
  for (const int rank : which) {
    while (!ranks.has_ended(rank) && seconds_since(begin) < kMargin) ::usleep(5'000);
  }
}

TEST(MessageFaults, SizesThatDiffer) {
  struct Sizes {
    size_t sent, received;
  };
  for (const Sizes& sizes : {Sizes{8, 16}, Sizes{0, 1}, Sizes{1, 0}, Sizes{kLarge, kLarge + 1}, Sizes{kLarge, 8}}) {
    RankProcesses ranks(2, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                          const bool sends = communicator.rank() == 0;
                          sends ? send_bytes(communicator, 5, 1) : receive_bytes(communicator, 5, 0);
                          fails(communicator, [&](Communicator&) {
                            sends ? send_bytes(communicator, sizes.sent, 1)
                                  : receive_bytes(communicator, sizes.received, 0);
                            communicator.barrier();
                          });
                        }));
    expect_errors(ranks.wait(kLimit), -1, ErrorCode::kMismatch,
                  {"message 2 from rank 0 to rank 1", join("rank 0 sent ", counted(sizes.sent, "byte")),
                   join("rank 1 is in a receive of ", counted(sizes.received, "byte"))});
  }
}

// The same bytes with another element type are not an error.
TEST(MessageFaults, TypesMayDiffer) {
  expect_all_well(run_threads(2, fault_settings(), [](Communicator& communicator) {
    int32_t values[4] = {1, 2, 3, 4};
    int8_t bytes[16] = {};
    if (communicator.rank() == 0) return communicator.send(values, 4, DataType::kInt32, 1);
    communicator.receive(bytes, 16, DataType::kInt8, 0);
    require(std::memcmp(bytes, values, 16) == 0, "other bytes");
  }));
}

TEST(MessageFaults, ASenderThatIsKilled) {
  for (const size_t before : {size_t{0}, size_t{1}}) {
    Shared<Progress> progress;
    RankProcesses ranks(3, with_communicator(3, fault_settings(), [&](Communicator& communicator) {
                          call_and_check(communicator, kSum);
                          for (size_t i = 0; i < before; ++i) {
                            if (communicator.rank() == 2) send_bytes(communicator, 10, 0);
                            if (communicator.rank() == 0) receive_bytes(communicator, 10, 2);
                          }
                          progress->calls[communicator.rank()] = 1;
                          if (communicator.rank() == 2) sleep_for_ever();
                          if (communicator.rank() == 0)
                            fails(communicator, [](Communicator& c) { receive_bytes(c, 8, 2); });
                          while (progress->calls[3] == 0) ::usleep(1000);  // rank 1 comes when all is over
                          fails(communicator, [](Communicator& c) { c.barrier(); });
                        }));
    await_calls(ranks, *progress, 2, 1);
    await_calls(ranks, *progress, 0, 1);
    const std::string name = named(ranks, 2);
    ranks.kill(2);
    wait_until_ended(ranks, {0});
    progress->calls[3] = 1;
    expect_errors(ranks.wait(kLimit), 2, ErrorCode::kPeerFailed,
                  {name, "has died while rank 0 was in a receive of 8 uint8 from rank 2",
                   join("(message ", before + 1, " from rank 2 to rank 0)"),
                   before == 0 ? "last completed call 1, all_reduce of 100 int32"
                               : "last completed a send of 10 uint8 to rank 0"});
  }
}

TEST(MessageFaults, ASenderThatIsKilledInTheMiddleOfAMessage) {
  for (int round = 0; round < 5; ++round) {
    Shared<Progress> progress;
    RankProcesses ranks(2, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                          fails(communicator, [&](Communicator& c) {
                            c.rank() == 1 ? send_bytes(c, kLarge, 0) : receive_bytes(c, kLarge, 1);
                            ++progress->calls[c.rank()];
                          });
                        }));
    await_calls(ranks, *progress, 1, 1 + round);
    const std::string name = named(ranks, 1);
    ranks.kill(1);
    expect_error(ranks.wait(kLimit), 0, ErrorCode::kPeerFailed,
                 {name, "has died while rank 0 was in a receive of 4000000 uint8 from rank 1", "a send of 4000000"});
  }
}

TEST(MessageFaults, AReceiverThatIsKilled) {
  Shared<Progress> progress;
  RankProcesses ranks(2, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                        progress->calls[communicator.rank()] = 1;
                        if (communicator.rank() == 1) sleep_for_ever();
                        fails(communicator, [](Communicator& c) { send_bytes(c, kLarge, 1); });
                      }));
  await_calls(ranks, *progress, 1, 1);
  await_calls(ranks, *progress, 0, 1);
  const std::string name = named(ranks, 1);
  ranks.kill(1);
  expect_error(
      ranks.wait(kLimit), 0, ErrorCode::kPeerFailed,
      {name, "has died while rank 0 was in a send of 4000000 uint8 to rank 1 (message 1 from rank 0 to rank 1)",
       "never made a call"});
}

// A message that a rank sent before it closed its communicator, or ended, still arrives.
TEST(MessageFaults, ARankThatLeavesAfterItsSends) {
  for (const bool killed : {false, true}) {
    Shared<Progress> progress;
    RankProcesses ranks(2, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                          if (communicator.rank() == 0) {
                            for (const size_t bytes : {size_t{7}, size_t{0}, size_t{20'000}}) {
                              send_bytes(communicator, bytes, 1);
                            }
                            if (killed) ::_exit(0);
                            return;
                          }
                          while (progress->calls[0] == 0) ::usleep(1000);
                          for (const size_t bytes : {size_t{7}, size_t{0}, size_t{20'000}}) {
                            receive_bytes(communicator, bytes, 0);
                          }
                          fails(communicator, [](Communicator& c) { receive_bytes(c, 1, 0); });
                        }));
    wait_until_ended(ranks, {0});
    progress->calls[0] = 1;
    const Outcomes outcomes = ranks.wait(kLimit);
    expect_error(outcomes, 1, ErrorCode::kPeerFailed,
                 {named(ranks, 0), killed ? "has died" : "closed its communicator",
                  "was in a receive of 1 uint8 from rank 0 (message 4 from rank 0 to rank 1)",
                  "last completed a send of 20000 uint8 to rank 1 (message 3 from rank 0 to rank 1)"});
  }
}

TEST(MessageFaults, ARankThatIsStopped) {
  Shared<Progress> progress;
  RankProcesses ranks(2, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                        fails(communicator, [&](Communicator& c) {
                          c.rank() == 1 ? send_bytes(c, 1000, 0) : receive_bytes(c, 1000, 1);
                          c.rank() == 0 ? send_bytes(c, kLarge, 1) : receive_bytes(c, kLarge, 0);
                          ++progress->calls[c.rank()];
                        });
                      }));
  await_calls(ranks, *progress, 1, 5);
  ranks.signal(1, SIGSTOP);
  wait_until_ended(ranks, {0});
  ranks.signal(1, SIGCONT);  // it learns of the failure, too
  expect_errors(ranks.wait(kLimit), -1, ErrorCode::kTimeout,
                {"rank 0 waited more than 1 s (PLAIT_TIMEOUT_SEC) in a ", named(ranks, 1) + ", stopped by a signal) "});
}

TEST(MessageFaults, ARankThatNeverAnswers) {
  RankProcesses ranks(2, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                        call_and_check(communicator, kSum);
                        if (communicator.rank() == 1) sleep_for_ever();
                        fails(communicator, [](Communicator& c) {
                          float values[100] = {};
                          c.receive(values, 100, DataType::kFloat32, 1);
                        });
                      }));
  wait_until_ended(ranks, {0});
  const std::string name = named(ranks, 1);
  ranks.kill(1);
  expect_error(
      ranks.wait(kLimit), 0, ErrorCode::kTimeout,
      {"rank 0 waited more than 1 s (PLAIT_TIMEOUT_SEC) in a receive of 100 float32 from rank 1 (message 1 from "
       "rank 1 to rank 0); ",
       name + ", sleeping) last completed call 1, all_reduce of 100 int32 (sum), and has called nothing since"});
}

// Rank 0 waits for rank 1, which waits for rank 2, which does nothing.
TEST(MessageFaults, TheOneAtTheEndOfAChainIsNamed) {
  RankProcesses ranks(3, with_communicator(3, fault_settings(), [&](Communicator& communicator) {
                        if (communicator.rank() == 2) sleep_for_ever();
                        if (communicator.rank() == 1) sleep_seconds(0.3);  // so that rank 0 gives up first
                        fails(communicator, [](Communicator& c) { receive_bytes(c, 16, c.rank() + 1); });
                      }));
  wait_until_ended(ranks, {0, 1});
  const std::string last = named(ranks, 2);
  ranks.kill(2);
  expect_errors(
      ranks.wait(kLimit), 2, ErrorCode::kTimeout,
      {"rank 0 waited more than 1 s", "in a receive of 16 uint8 from rank 1", named(ranks, 1),
       "waits in a receive of 16 uint8 from rank 2 (message 1 from rank 2 to rank 1)", last, "never made a call"});
}

// A call waits for a rank that waits for a message.
TEST(MessageFaults, ACallWaitsForARankInAnExchange) {
  RankProcesses ranks(3, with_communicator(3, fault_settings(), [&](Communicator& communicator) {
                        call_and_check(communicator, kSum);
                        if (communicator.rank() == 2) {
                          sleep_seconds(0.3);
                          fails(communicator, [](Communicator& c) { receive_bytes(c, 16, 0); });
                        }
                        fails(communicator, [](Communicator& c) { call_and_check(c, kSum); });
                      }));
  expect_errors(ranks.wait(kLimit), -1, ErrorCode::kTimeout,
                {"in call 2, all_reduce of 100 int32 (sum)", named(ranks, 2),
                 "waits in a receive of 16 uint8 from rank 0 (message 1 from rank 0 to rank 2)"});
}

// ... and a message for a rank that waits in a call.
TEST(MessageFaults, AMessageWaitsForARankInACall) {
  RankProcesses ranks(2, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                        if (communicator.rank() == 0) {
                          fails(communicator, [](Communicator& c) { receive_bytes(c, 16, 1); });
                        }
                        sleep_seconds(0.3);
                        fails(communicator, [](Communicator& c) { call_and_check(c, kSum); });
                      }));
  expect_errors(ranks.wait(kLimit), -1, ErrorCode::kTimeout,
                {"rank 0 waited more than 1 s (PLAIT_TIMEOUT_SEC) in a receive of 16 uint8 from rank 1",
                 named(ranks, 1), "entered call 1, all_reduce of 100 int32 (sum) and waits there"});
}

TEST(MessageFaults, AbortEndsAnExchange) {
  RankProcesses ranks(2, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                        if (communicator.rank() == 1) communicator.abort("out of luck");
                        fails(communicator, [](Communicator& c) { receive_bytes(c, 16, 1 - c.rank()); });
                      }));
  expect_errors(ranks.wait(kLimit), -1, ErrorCode::kPeerFailed, {"rank 1 aborted: out of luck"});
}

TEST(MessageFaults, AnInterruptEndsAnExchange) {
  RankProcesses ranks(2, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                        if (communicator.rank() == 1) {
                          communicator.set_interrupt_check([] { throw std::runtime_error("interrupt"); });
                          const Outcome outcome = outcome_of([&](int) { receive_bytes(communicator, 16, 0); }, 1);
                          require(outcome.text == "interrupt", describe(outcome));
                        }
                        fails(communicator, [](Communicator& c) { c.barrier(); });
                      }));
  expect_errors(ranks.wait(kLimit), -1, ErrorCode::kPeerFailed,
                {"rank 1 was interrupted in a receive of 16 uint8 from rank 0"});
}

TEST(MessageFaults, AForkedChildCannotExchange) {
  expect_all_well(
      run_processes(2, kLimit, with_communicator(2, fault_settings(), [&](Communicator& communicator) {
                      const int other = 1 - communicator.rank();
                      const pid_t child = ::fork();
                      if (child == 0) {
                        const Outcome outcome = outcome_of([&](int) { send_bytes(communicator, 4, other); }, 0);
                        ::_exit(objection(outcome, ErrorCode::kInvalidArgument, {"forked"}).empty() ? 0 : 1);
                      }
                      int status = 0;
                      ::waitpid(child, &status, 0);
                      require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child was not refused");
                      send_bytes(communicator, 40, other);
                      receive_bytes(communicator, 40, other);
                    })));
}

}  // namespace
}  // namespace plait::test
