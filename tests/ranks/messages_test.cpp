// Messages between ranks: what is sent arrives, in order, whatever the sizes, the ranks and what else they do.
#include <gtest/gtest.h>

#include "support/expect_outcomes.hpp"
#include "support/failing_ranks.hpp"
#include "support/random_messages.hpp"
#include "support/rank_threads.hpp"

namespace plait::test {
namespace {

constexpr auto kSend = PeerMessage::Kind::kSend;
constexpr auto kReceive = PeerMessage::Kind::kReceive;

Settings settings() {
  Settings settings;
  settings.scratch_bytes = 16 * 1024;
  settings.timeout_seconds = 30;
  return settings;
}

Letter letter(int from, int to, size_t bytes, uint64_t seed = 1) { return {from, to, DataType::kUint8, bytes, seed}; }

void send(Communicator& communicator, const Letter& letter) {
  LetterBuffer buffer(letter, 3, true);
  communicator.send(buffer.data(), letter.count, letter.type, letter.to);
}

void receive(Communicator& communicator, const Letter& letter) {
  LetterBuffer buffer(letter, 5, false);
  communicator.receive(buffer.data(), letter.count, letter.type, letter.from);
  buffer.check();
}

// Rounds of exchanges, with collectives in between.
void random_rounds(Communicator& communicator, uint64_t seed, int rounds, int letters, size_t most_bytes) {
  Random common(seed);  // draws the same on all ranks
  Random own(seed + static_cast<uint64_t>(communicator.rank()) + 1);
  for (int round = 0; round < rounds; ++round) {
    exchange_letters(communicator, random_letters(common, communicator.size(), letters, most_bytes), own);
    if (one_in(common, 3)) {
      const size_t count = between(common, 0, 5000);
      call_and_check(communicator, {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}, round);
    }
    if (one_in(common, 4)) {
      const int root = static_cast<int>(common() % static_cast<uint64_t>(communicator.size()));
      call_and_check(communicator, {Collective::kBroadcast, DataType::kInt8, ReduceOp::kSum, root, 300}, round);
    }
  }
}

TEST(Messages, RandomExchangesOnThreads) {
  Random random(run_seed());
  for (const int ranks : {1, 2, 2, 3, 5, 8, 16}) {
    const uint64_t seed = random();
    expect_all_well(
        run_threads(ranks, settings(),
                    [&](Communicator& communicator) { random_rounds(communicator, seed, 12, 4 * ranks, 300'000); }),
        join(ranks, " ranks"));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Messages, RandomExchangesOnProcesses) {
  Random random(run_seed());
  for (const int ranks : {1, 2, 3, 4, 7, 16}) {
    const uint64_t seed = random();
    expect_all_well(run_processes(ranks, kLimit,
                                  with_communicator(ranks, settings(),
                                                    [&](Communicator& communicator) {
                                                      random_rounds(communicator, seed, 15, 5 * ranks, 300'000);
                                                    })),
                    join(ranks, " ranks"));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Messages, ManyRanks) {
  const uint64_t seed = run_seed();
  expect_all_well(run_threads(48, settings(),
                              [&](Communicator& communicator) { random_rounds(communicator, seed, 2, 400, 20'000); }));
}

TEST(Messages, EveryWaitPolicy) {
  Random random(run_seed());
  for (const WaitPolicy policy : {WaitPolicy::kSpin, WaitPolicy::kYield, WaitPolicy::kSleep}) {
    Settings chosen = settings();
    chosen.wait_policy = policy;
    const uint64_t seed = random();
    expect_all_well(
        run_threads(2, chosen, [&](Communicator& communicator) { random_rounds(communicator, seed, 4, 8, 100'000); }));
  }
}

// More messages than a FIFO has slots, sent one by one or all in one exchange, and received the other way.
TEST(Messages, ArriveInTheirOrder) {
  constexpr int kLetters = 500;
  for (const bool one_by_one : {false, true}) {
    expect_all_well(run_threads(2, settings(), [&](Communicator& communicator) {
      Random random(7);
      std::vector<Letter> letters;
      for (int i = 0; i < kLetters; ++i) letters.push_back(letter(0, 1, between(random, 0, 60), random()));
      if (one_by_one == (communicator.rank() == 0)) {
        for (const Letter& each : letters)
          communicator.rank() == 0 ? send(communicator, each) : receive(communicator, each);
      } else {
        exchange_letters(communicator, letters, random);
      }
    }));
  }
}

TEST(Messages, ASmallOneIsSentBeforeItIsReceived) {
  expect_all_well(run_processes(2, kLimit, with_communicator(2, settings(), [&](Communicator& communicator) {
                                  const Letter there = letter(0, 1, 8), back = letter(1, 0, 20'000);
                                  if (communicator.rank() == 0) {
                                    send(communicator, there);
                                    receive(communicator, back);
                                  } else {
                                    send(communicator, back);  // neither waits for the other
                                    receive(communicator, there);
                                  }
                                })));
}

// A message waits in its FIFO while its ends are in calls, and calls go on while messages are under way.
TEST(Messages, AndCollectivesAreIndependent) {
  expect_all_well(run_processes(3, kLimit, with_communicator(3, settings(), [&](Communicator& communicator) {
                                  const Call sum{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 700};
                                  const Letter first = letter(0, 1, 100, 5), second = letter(2, 0, 5000, 6);
                                  for (int i = 0; i < 5; ++i) {
                                    if (communicator.rank() == 0) send(communicator, first);
                                    if (communicator.rank() == 2) send(communicator, second);
                                    for (int j = 0; j < 4; ++j) call_and_check(communicator, sum, j);
                                    if (communicator.rank() == 1) receive(communicator, first);
                                    call_and_check(communicator, sum);
                                    if (communicator.rank() == 0) receive(communicator, second);
                                  }
                                })));
}

// Rank 0 receives from rank 1 and sends a large message to rank 2. The send must not wait for rank 1, because rank 1
// waits for rank 2.
TEST(Messages, OfOneExchangeDoNotWaitForEachOther) {
  constexpr size_t kLarge = 3'000'000;
  expect_all_well(run_processes(3, kLimit, with_communicator(3, settings(), [&](Communicator& communicator) {
                                  const Letter late = letter(1, 0, kLarge, 1), large = letter(0, 2, kLarge, 2);
                                  const Letter go = letter(2, 1, 1, 3);
                                  Random random(1);
                                  if (communicator.rank() == 0) exchange_letters(communicator, {late, large}, random);
                                  if (communicator.rank() == 1) {
                                    receive(communicator, go);
                                    send(communicator, late);
                                  }
                                  if (communicator.rank() == 2) {
                                    receive(communicator, large);
                                    send(communicator, go);
                                  }
                                })));
}

TEST(Messages, ToOneself) {
  Communicator alone = std::move(Communicator::in_process(1, settings())[0]);
  Random random(3);
  exchange_letters(alone, {letter(0, 0, 1000, 1), letter(0, 0, 0, 2), letter(0, 0, 500'000, 3)}, random);
  std::vector<int32_t> same = {1, 2, 3};  // sent from a buffer into the same buffer
  const PeerMessage messages[] = {{kReceive, 0, DataType::kInt32, 3, same.data()},
                                  {kSend, 0, DataType::kInt32, 3, same.data()}};
  alone.exchange(messages);
  EXPECT_EQ(same, (std::vector<int32_t>{1, 2, 3}));
  alone.exchange({});
}

// A refused exchange leaves the order of messages as it was.
TEST(Messages, WhatIsRefusedHarmsNobody) {
  expect_all_well(run_threads(2, settings(), [](Communicator& communicator) {
    const int other = 1 - communicator.rank();
    std::byte data[8] = {};
    const auto refused = [&](std::vector<PeerMessage> messages, const char* why) {
      const Outcome outcome = outcome_of([&](int) { communicator.exchange(messages); }, 0);
      const std::string problem = objection(outcome, ErrorCode::kInvalidArgument, {why});
      require(problem.empty(), problem);
    };
    const PeerMessage good{kSend, other, DataType::kUint8, 8, data};
    refused({good, {kSend, 2, DataType::kUint8, 8, data}}, "ranks 0 to 1 only");
    refused({good, {kReceive, other, DataType::kUint8, 8, nullptr}}, "null");
    refused({good, {kSend, communicator.rank(), DataType::kUint8, 8, data}}, "this rank itself");
    Random random(1);
    exchange_letters(communicator, {letter(0, 1, 9), letter(1, 0, 1000)}, random);
  }));
}

TEST(Messages, ACommunicatorThatHasMoved) {
  std::vector<Communicator> ranks = Communicator::in_process(1, settings());
  const Communicator taken = std::move(ranks[0]);
  EXPECT_EQ(objection(outcome_of([&](int) { ranks[0].exchange({}); }, 0), ErrorCode::kInvalidArgument, {"moved"}), "");
}

}  // namespace
}  // namespace plait::test
