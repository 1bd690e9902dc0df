// One rank at a time, so that the order of events can be forced: stale signals, failure records, early ends.
#include "runtime/host/host_rank.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "algorithms/algorithm.hpp"
#include "support/outcome.hpp"

namespace plait {
namespace {

constexpr int kSignals = 16;
constexpr size_t kScratchBytes = 4096;

const Call kCall{Collective::kBroadcast, DataType::kInt32, ReduceOp::kSum, 0, 8};

VerifiedPlan broadcast_plan() {
  AlgorithmArguments arguments;
  arguments.collective = Collective::kBroadcast;
  arguments.ranks = 2;
  return verify(make_plan("binomial", arguments));
}

// Two ranks in this process; rank 0 broadcasts.
class Pair {
 public:
  explicit Pair(double timeout_seconds = 20, double notice_seconds = kNoticeSeconds, bool small_rooms = false)
      : segment_(std::make_shared<Segment>(SegmentShape{2, kScratchBytes, kSignals})), plan_(broadcast_plan()) {
    BindLimits limits;
    limits.scratch_bytes = kScratchBytes;
    limits.signals = kSignals;
    if (small_rooms) limits.small_scratch_bytes = small_scratch_bytes(kScratchBytes);
    if (small_rooms) limits.small_signals = small_signals(kSignals);
    limits.signal_stride = Segment::kSignalStride;
    HostRank::Options options;
    options.waits.timeout_seconds = timeout_seconds;
    options.waits.notice_seconds = notice_seconds;
    options.wait_policy = WaitPolicy::kSleep;
    for (int rank = 0; rank < 2; ++rank) {
      bound_.push_back(bind(plan_, kCall, rank, limits));
      ranks_.push_back(std::make_unique<HostRank>(segment_, rank, Peers({::getpid(), ::getpid()}), options));
    }
  }

  Segment& segment() { return *segment_; }
  HostRank& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  void close(int rank) { ranks_[static_cast<size_t>(rank)].reset(); }

  // Messages have kCall.count elements, or none.
  void send(const std::vector<int32_t>& message) {
    std::vector<int32_t> output(message.size());
    rank(0).run(bound_[0], call_of(message.size()), message.data(), output.data());
  }
  std::vector<int32_t> receive(size_t count = kCall.count) {
    std::vector<int32_t> output(count);
    rank(1).run(bound_[1], call_of(count), nullptr, output.data());
    return output;
  }

 private:
  static Call call_of(size_t count) {
    Call call = kCall;
    call.count = count;
    return call;
  }

  std::shared_ptr<Segment> segment_;
  const VerifiedPlan plan_;
  std::vector<BoundPlan> bound_;
  std::vector<std::unique_ptr<HostRank>> ranks_;
};

std::vector<int32_t> message(int32_t value, size_t count = kCall.count) { return std::vector<int32_t>(count, value); }

TEST(HostRank, SignalsOfEarlierEqualCallsAreNotTakenForNewOnes) {
  Pair pair;
  // From the third call on, both halves of the flags hold what equal calls left there. The root is always late.
  for (int32_t i = 1; i <= 6; ++i) {
    std::thread root([&] {
      ::usleep(20'000);
      pair.send(message(i));
    });
    EXPECT_EQ(pair.receive(), message(i));
    root.join();
  }
}

TEST(HostRank, GarbageInSignalWordsIsNoSignal) {
  Pair pair(0.3);
  for (int rank = 0; rank < 2; ++rank) {
    for (uint32_t room = 0; room < kRooms; ++room) {
      const int signals = room < kLargeRooms ? kSignals : small_signals(kSignals);
      for (int signal = 0; signal < signals; ++signal) {
        auto* word = reinterpret_cast<uint64_t*>(pair.segment().signals(rank, room) + signal * Segment::kSignalStride);
        *word = signal % 2 == 0 ? 1 : ~uint64_t{0};
      }
    }
  }
  const auto outcome = test::outcome_of([&](int) { pair.receive(); }, 1);
  EXPECT_EQ(test::objection(
                outcome, ErrorCode::kTimeout,
                {"rank 1 waited more than 0.3 s", "plan binomial(load), queue 0, operation 0 `wait 0 from r0 queue 0`",
                 "rank 0", "never made a call"}),
            "");
}

TEST(HostRank, ALongWaitIsLogged) {
  Pair pair(20, 0.05);
  const auto log_of_late = [&](int32_t i) {
    testing::internal::CaptureStderr();
    std::thread root([&] {
      ::usleep(300'000);
      pair.send(message(i));
    });
    EXPECT_EQ(pair.receive(), message(i));
    root.join();
    return testing::internal::GetCapturedStderr();
  };
  const std::string log = log_of_late(1);
  const std::string where =
      " s in call 1, broadcast of 8 int32, root 0, at plan binomial(load), queue 0, operation 0 `wait 0 from r0 queue "
      "0`; rank "
      "0 (process ";
  EXPECT_TRUE(log.starts_with("plait: warn: has waited 0.05" + where)) << log;
  EXPECT_NE(log.find("\nplait: warn: has waited 0.1" + where), std::string::npos) << log;
  EXPECT_NE(log.find(") never made a call; fails after 20 s (PLAIT_TIMEOUT_SEC)\n"), std::string::npos) << log;
  EXPECT_TRUE(log_of_late(2).starts_with("plait: warn: has waited 0.05 s in call 2"));
}

TEST(HostRank, TheFirstFailureWinsAndStays) {
  Pair pair;
  pair.rank(1).abort(ErrorCode::kPeerFailed, "first");
  pair.rank(0).abort(ErrorCode::kTimeout, "second");
  for (int i = 0; i < 2; ++i) {
    const auto outcome = test::outcome_of([&](int) { pair.send(message(1)); }, 0);
    EXPECT_EQ(test::objection(outcome, ErrorCode::kPeerFailed, {"first (found by rank 1)"}), "");
  }
}

TEST(HostRank, LongReasonsAreCut) {
  Pair pair;
  pair.rank(1).abort(ErrorCode::kPeerFailed, std::string(5000, 'x'));
  EXPECT_EQ(test::outcome_of([&](int) { pair.receive(); }, 1).text, std::string(999, 'x'));
}

// A rank was killed between the first and the last word of its reason.
TEST(HostRank, ARankThatDiedWhileItWroteTheFailure) {
  Pair pair;
  pair.segment().failure().state = FailureRecord::kWriting;
  const auto outcome = test::outcome_of([&](int) { pair.receive(); }, 1);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kPeerFailed, {"given up this communicator and died"}), "");
  EXPECT_LT(outcome.seconds, 10);
}

TEST(HostRank, ARankThatCloses) {
  Pair pair;
  pair.send(message(7));
  EXPECT_EQ(pair.segment().status(0).state.load(), RankState::kPresent);
  pair.close(0);
  EXPECT_EQ(pair.segment().status(0).state.load(), RankState::kClosed);
  EXPECT_EQ(pair.receive(), message(7));  // what it sent is still there
  const auto outcome = test::outcome_of([&](int) { pair.receive(); }, 1);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kPeerFailed,
                            {"rank 0", "closed its communicator while rank 1 was in call 2",
                             "last completed call 1, broadcast of 8 int32, root 0"}),
            "");
}

// A rank may be two epochs ahead of another, but not three.
TEST(HostRank, NobodyOverwritesWhatASlowRankStillReads) {
  Pair pair(0.3);
  for (const int32_t i : {1, 2}) pair.send(message(i));
  const auto outcome = test::outcome_of([&](int) { pair.send(message(3)); }, 0);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kTimeout,
                            {"the wait for rank 1 to be done with an earlier call", "never made a call"}),
            "");
}

// ... but more calls with short messages, and the slow rank gets each of them.
TEST(HostRank, ARootIsManyShortMessagesAhead) {
  Pair pair(20, kNoticeSeconds, true);
  int32_t sent = 0, received = 0;
  for (int round = 0; round < 3; ++round) {
    while (sent < received + static_cast<int32_t>(kSmallRooms)) pair.send(message(++sent));
    for (int i = 0; i < 1 + 10 * round; ++i) EXPECT_EQ(pair.receive(), message(++received));
  }
}

TEST(HostRank, NobodyOverwritesAShortMessageThatASlowRankStillReads) {
  Pair pair(0.3, kNoticeSeconds, true);
  for (uint32_t i = 1; i <= kSmallRooms; ++i) pair.send(message(static_cast<int32_t>(i)));
  const auto outcome = test::outcome_of([&](int) { pair.send(message(0)); }, 0);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kTimeout,
                            {"the wait for rank 1 to be done with an earlier call", "never made a call"}),
            "");
}

TEST(HostRank, EmptyCallsWaitForNobody) {
  Pair pair;
  for (uint32_t i = 1; i <= 3 * kRooms; ++i) {
    pair.send({});
    EXPECT_EQ(pair.segment().status(0).completed_call.load(), i);
  }
  for (uint32_t i = 1; i <= 3 * kRooms; ++i) EXPECT_EQ(pair.receive(0), message(0, 0));
  pair.send(message(1));
  EXPECT_EQ(pair.receive(), message(1));
}

TEST(HostRank, ARankThatWaitsSaysSo) {
  Pair pair;
  test::Outcome outcome;
  std::thread waiter([&] { outcome = test::outcome_of([&](int) { pair.receive(); }, 1); });
  while (pair.segment().status(1).waiting.load() == kNotWaiting) ::usleep(100);
  EXPECT_EQ(pair.segment().status(1).waiting.load(), 0);  // queue 0, operation 0
  pair.rank(0).abort(ErrorCode::kPeerFailed, "enough");
  waiter.join();
  EXPECT_EQ(outcome.text, "enough (found by rank 0)");
}

// ... and no longer says so when it has gone on, however short its later waits are.
TEST(HostRank, ARankThatHasWaitedNoLongerSaysSo) {
  Pair pair;
  std::thread waiter([&] { EXPECT_EQ(pair.receive(), message(1)); });
  while (pair.segment().status(1).waiting.load() == kNotWaiting) ::usleep(100);
  pair.send(message(1));
  waiter.join();
  EXPECT_EQ(pair.segment().status(1).waiting.load(), kNotWaiting);
}

}  // namespace
}  // namespace plait
