// The conclusions that a rank draws from the statuses of others about calls on GPUs.
#include "runtime/host/device_calls.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

namespace plait {
namespace {

Call call_of(size_t count) { return {Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, count}; }

class TwoRanks : public testing::Test {
 protected:
  void close(int rank) { segment_->status(rank).state.store(RankState::kClosed); }

  std::shared_ptr<Segment> segment_ = std::make_shared<Segment>(SegmentShape{2, 4096, 16});
  DeviceCalls zero_{segment_, 0, Peers({getpid(), getpid()})};
  DeviceCalls one_{segment_, 1, Peers({getpid(), getpid()})};
};

TEST_F(TwoRanks, MayCloseAfterEqualCalls) {
  for (DeviceCalls* rank : {&zero_, &one_}) rank->announce(call_of(1));
  close(1);
  zero_.look_after_peers();
  EXPECT_FALSE(zero_.has_failed());
}

TEST_F(TwoRanks, ACallThatAClosedRankNeverMadeFails) {
  for (DeviceCalls* rank : {&zero_, &one_}) rank->announce(call_of(1));
  close(1);
  zero_.announce(call_of(2));
  zero_.look_after_peers();
  ASSERT_TRUE(zero_.has_failed());
  EXPECT_EQ(zero_.failure()->code(), ErrorCode::kPeerFailed);
  const std::string words = zero_.failure()->what();
  EXPECT_NE(words.find("rank 1 (process"), std::string::npos) << words;
  EXPECT_NE(words.find("has closed its communicator after 1 call, but rank 0"), std::string::npos) << words;
}

TEST_F(TwoRanks, ACallIsAwaitedThatAnotherHasNotMade) {
  EXPECT_EQ(zero_.awaited_call(), std::nullopt);
  for (size_t i = 1; i <= 3; ++i) zero_.announce(call_of(i));
  EXPECT_EQ(zero_.awaited_call(), 1);
  one_.announce(call_of(1));
  EXPECT_EQ(zero_.awaited_call(), 2);
  EXPECT_EQ(one_.awaited_call(), std::nullopt);
  for (size_t i = 2; i <= 3; ++i) one_.announce(call_of(i));
  EXPECT_EQ(zero_.awaited_call(), std::nullopt);
}

TEST_F(TwoRanks, CallsThatDifferAreDescribed) {
  zero_.announce(call_of(1));
  one_.announce(call_of(3));
  EXPECT_NE(zero_.describe().find("call 1 differs between ranks"), std::string::npos) << zero_.describe();
}

TEST_F(TwoRanks, CallsThatDifferEndTheCommunicator) {
  zero_.announce(call_of(1));
  zero_.announce(call_of(2));
  for (DeviceCalls* rank : {&zero_, &one_}) rank->compare_calls();  // a rank that has not come yet does not differ
  one_.announce(call_of(1));
  for (DeviceCalls* rank : {&zero_, &one_}) rank->compare_calls();
  EXPECT_FALSE(zero_.has_failed());
  one_.announce(call_of(3));
  one_.compare_calls();
  ASSERT_TRUE(zero_.has_failed());
  EXPECT_EQ(zero_.failure()->code(), ErrorCode::kMismatch);
  EXPECT_NE(std::string(zero_.failure()->what()).find("call 2 differs between ranks: rank 1 called"), std::string::npos)
      << zero_.failure()->what();
}

TEST_F(TwoRanks, CallsThatOnceDifferedAreNotForgotten) {
  zero_.announce(call_of(2));
  one_.announce(call_of(3));
  for (int i = 0; i < 3 * kCallHistory; ++i) {
    for (DeviceCalls* rank : {&zero_, &one_}) rank->announce(call_of(1));
  }
  zero_.compare_calls();
  ASSERT_TRUE(zero_.has_failed());
  const std::string words = zero_.failure()->what();
  EXPECT_EQ(words.find("rank 0 and rank 1 made different calls some time ago; "), 0u) << words;
}

// No rank waits for another, and hosts are as far apart as a GPU queues launches.
TEST_F(TwoRanks, ALoopOfCallsThatNobodyWaitsForEnds) {
  for (const Collective collective :
       {Collective::kBroadcast, Collective::kReduce, Collective::kGather, Collective::kScatter}) {
    const auto call_by = [&](int rank) { return Call{collective, DataType::kFloat32, ReduceOp::kSum, rank, 4}; };
    const auto segment = std::make_shared<Segment>(SegmentShape{2, 4096, 16});
    DeviceCalls zero(segment, 0, Peers({getpid(), getpid()})), one(segment, 1, Peers({getpid(), getpid()}));
    for (int i = 0; i < 1000; ++i) zero.announce(call_by(0));
    int calls = 0;
    while (!zero.has_failed() && calls < 200) {
      zero.announce(call_by(0));
      one.announce(call_by(1));
      if (++calls % 10 == 0) one.compare_calls();  // as a thread does now and then
    }
    ASSERT_TRUE(zero.has_failed()) << name(collective);
    EXPECT_EQ(zero.failure()->code(), ErrorCode::kMismatch);
  }
}

TEST(DeviceCalls, KnowsWhetherRanksShareAProcess) {
  const auto sharing = [](std::vector<int> pids) {
    const auto segment = std::make_shared<Segment>(SegmentShape{static_cast<int>(pids.size()), 4096, 16});
    return DeviceCalls(segment, 0, Peers(std::move(pids))).process_sharing();
  };
  constexpr auto kNone = ProcessSharing::kNone, kSome = ProcessSharing::kSome, kAll = ProcessSharing::kAll;
  const int own = getpid(), other = getppid();
  ASSERT_NE(other, 0);
  EXPECT_EQ(sharing({own}), kNone);
  EXPECT_EQ(sharing({own, other}), kNone);
  EXPECT_EQ(sharing({own, own}), kAll);
  EXPECT_EQ(sharing({own, own, own}), kAll);
  EXPECT_EQ(sharing({own, other, own}), kSome);
  EXPECT_EQ(sharing({own, other, other}), kSome);  // two other ranks do
  EXPECT_EQ(sharing({own, 0, 0}), kNone);          // nobody can tell
  EXPECT_EQ(sharing({own, 0, own}), kSome);
}

}  // namespace
}  // namespace plait
