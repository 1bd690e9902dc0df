// Exchanges of one rank at a time, so that the order of events can be forced: what a rank says while it waits, and how
// far ahead of the other it may be.
#include "runtime/host/p2p.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <numeric>
#include <thread>
#include <vector>

#include "runtime/host/host_rank.hpp"
#include "support/outcome.hpp"

namespace plait {
namespace {

constexpr auto kSend = PeerMessage::Kind::kSend;
constexpr auto kReceive = PeerMessage::Kind::kReceive;

class Pair {
 public:
  explicit Pair(double timeout_seconds = 20) : segment_(std::make_shared<Segment>(SegmentShape{2, 4096, 1})) {
    HostRank::Options options;
    options.waits.timeout_seconds = timeout_seconds;
    options.wait_policy = WaitPolicy::kSleep;
    for (int rank = 0; rank < 2; ++rank) {
      ranks_.push_back(std::make_unique<HostRank>(segment_, rank, Peers({::getpid(), ::getpid()}), options));
    }
  }

  RankStatus& status(int rank) { return segment_->status(rank); }
  void exchange(int rank, const std::vector<PeerMessage>& messages) { ranks_[rank]->exchange(messages); }
  void close(int rank) { ranks_[rank].reset(); }
  // Waits, 10 s at most, until the rank says that it waits for this message. Returns what it says.
  std::string awaited(int rank, const std::string& text) {
    std::string found;
    for (int i = 0; i < 100'000 && found != text; ++i) {
      NumberedMessage message;
      const bool waits = status(rank).waiting.load() == kWaitingForMessage;
      found = waits && look_up(status(rank).exchanges, message) ? to_text(message, rank) : "nothing";
      ::usleep(100);
    }
    return found;
  }

 private:
  std::shared_ptr<Segment> segment_;
  std::vector<std::unique_ptr<HostRank>> ranks_;
};

PeerMessage message(PeerMessage::Kind kind, int peer, std::vector<int32_t>& values) {
  return {kind, peer, DataType::kInt32, values.size(), values.data()};
}

std::vector<int32_t> numbers(size_t count, int first) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(P2p, ARankThatWaitsForAMessageSaysSo) {
  Pair pair;
  std::vector<int32_t> sent = numbers(10, 5), received(10);
  for (int round = 1; round <= 2; ++round) {
    std::thread waiter([&] { pair.exchange(1, {message(kReceive, 0, received)}); });
    const std::string text = join("receive of 10 int32 from rank 0 (message ", round, " from rank 0 to rank 1)");
    EXPECT_EQ(pair.awaited(1, text), text);
    EXPECT_EQ(pair.status(1).exchanges.entered.load(), static_cast<uint64_t>(round));
    EXPECT_EQ(pair.status(1).exchanges.completed.load(), static_cast<uint64_t>(round - 1));
    pair.exchange(0, {message(kSend, 1, sent)});
    waiter.join();
    EXPECT_EQ(received, sent);
    EXPECT_EQ(pair.status(1).waiting.load(), kNotWaiting);
    EXPECT_EQ(pair.status(1).exchanges.completed.load(), static_cast<uint64_t>(round));
  }
}

// Among several messages, the first receive that is not done is named.
TEST(P2p, OfSeveralAReceiveIsNamed) {
  Pair pair;
  std::vector<int32_t> large = numbers(1'000'000, 1), small(2), second(3);
  std::thread waiter(
      [&] { pair.exchange(0, {message(kSend, 1, large), message(kReceive, 1, small), message(kReceive, 1, second)}); });
  const auto expect_awaited = [&](const std::string& text) { EXPECT_EQ(pair.awaited(0, text), text); };
  expect_awaited("receive of 2 int32 from rank 1 (message 1 from rank 1 to rank 0)");
  std::vector<int32_t> two = numbers(2, 7), three = numbers(3, 8), all(large.size());
  pair.exchange(1, {message(kSend, 0, two)});
  expect_awaited("receive of 3 int32 from rank 1 (message 2 from rank 1 to rank 0)");
  pair.exchange(1, {message(kSend, 0, three)});
  expect_awaited("send of 1000000 int32 to rank 1 (message 1 from rank 0 to rank 1)");
  pair.exchange(1, {message(kReceive, 0, all)});
  waiter.join();
  EXPECT_EQ(small, two);
  EXPECT_EQ(second, three);
  EXPECT_EQ(all, large);
}

TEST(P2p, ASenderMayBeAheadByAFifo) {
  Pair pair(0.3);
  std::vector<int32_t> nothing;
  for (int i = 0; i < kFifoSlots; ++i) pair.exchange(0, {message(kSend, 1, nothing)});
  const auto outcome = test::outcome_of([&](int) { pair.exchange(0, {message(kSend, 1, nothing)}); }, 0);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kTimeout,
                            {"rank 0 waited more than 0.3 s",
                             join("send of 0 int32 to rank 1 (message ", kFifoSlots + 1, " from rank 0 to rank 1)"),
                             "rank 1", "never made a call"}),
            "");
}

TEST(P2p, WhatIsInTheFifoOutlivesItsSender) {
  Pair pair;
  std::vector<int32_t> sent = numbers(9000, 1), received(9000), more(1);
  pair.exchange(0, {message(kSend, 1, sent)});
  pair.close(0);
  pair.exchange(1, {message(kReceive, 0, received)});
  EXPECT_EQ(received, sent);
  const auto outcome = test::outcome_of([&](int) { pair.exchange(1, {message(kReceive, 0, more)}); }, 1);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kPeerFailed,
                            {"rank 0", "closed its communicator while rank 1 was in a receive of 1 int32 from rank 0",
                             "last completed a send of 9000 int32 to rank 1"}),
            "");
}

// Ranks that share a core copy with ordinary stores, others past the caches. Either way everything arrives.
TEST(P2p, LargeMessagesOnOneCoreAndOnTwo) {
  for (const bool one_core : {true, false}) {
    Pair pair;
    std::vector<int32_t> sent = numbers(5'000'000, 3), received(sent.size());
    std::thread receiver([&] { pair.exchange(1, {message(kReceive, 0, received)}); });
    EXPECT_NE(pair.awaited(1, "receive of 5000000 int32 from rank 0 (message 1 from rank 0 to rank 1)"), "nothing");
    pair.status(1).core = one_core ? sched_getcpu() : -1;
    pair.exchange(0, {message(kSend, 1, sent)});
    receiver.join();
    EXPECT_EQ(received, sent);
  }
}

}  // namespace
}  // namespace plait
