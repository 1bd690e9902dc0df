// The conclusions of a rank that leaves from the statuses of the others, in every order in which they come and go.
#include "runtime/host/last_look.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>
#include <memory>

#include "support/outcome.hpp"

namespace plait {
namespace {

Call gather_to(int root) { return {Collective::kGather, DataType::kFloat32, ReduceOp::kSum, root, 4}; }

// Rank 0 of two leaves.
class LastLookOfZero : public testing::TestWithParam<LogOfStatus> {
 protected:
  void make(int rank, std::initializer_list<Call> calls) {
    CallLog& log = segment_->status(rank).*GetParam();
    for (const Call& call : calls) publish(log, log.entered.load() + 1, call);
  }
  void close(int rank) { segment_->status(rank).state.store(RankState::kClosed); }

  bool is_over(int other_process = ::getpid()) {
    const Watch watch(segment_, 0, Peers({::getpid(), other_process}), {});
    return LastLook(*segment_, 0, watch).is_over();
  }
  void expect_failure(ErrorCode code, const std::vector<std::string>& parts, int other_process = ::getpid()) {
    const auto outcome = test::outcome_of([&](int) { is_over(other_process); }, 0);
    EXPECT_EQ(test::objection(outcome, code, parts), "");
    EXPECT_TRUE(segment_->failure().is_set());
    EXPECT_TRUE(is_over(other_process));  // it has been told
  }

  std::shared_ptr<Segment> segment_ = std::make_shared<Segment>(SegmentShape{2, 4096, 16});
};

INSTANTIATE_TEST_SUITE_P(CallsOn, LastLookOfZero, testing::Values(&RankStatus::calls, &RankStatus::device_calls),
                         [](const auto& log) { return log.index == 0 ? "HostMemory" : "Gpus"; });

TEST_P(LastLookOfZero, NoCalls) { EXPECT_TRUE(is_over()); }

TEST_P(LastLookOfZero, EqualCalls) {
  for (const int rank : {0, 1}) make(rank, {gather_to(0), gather_to(1)});
  EXPECT_TRUE(is_over());
  close(1);
  EXPECT_TRUE(is_over());
}

TEST_P(LastLookOfZero, RootsThatDiffer) {
  make(0, {gather_to(0), gather_to(1)});
  make(1, {gather_to(0)});
  EXPECT_FALSE(is_over());  // it may yet come, and with the same call
  make(1, {gather_to(0)});
  expect_failure(ErrorCode::kMismatch, {"call 2 differs between ranks: rank 0 called gather of 4 float32, root 1, rank "
                                        "1 called gather of 4 float32, root 0; all ranks must make the same calls"});
}

TEST_P(LastLookOfZero, RootsThatDifferedLongAgo) {
  for (const int rank : {0, 1}) {
    make(rank, {gather_to(rank)});
    for (int i = 0; i < 100; ++i) make(rank, {gather_to(0)});
  }
  expect_failure(ErrorCode::kMismatch, {"rank 0 and rank 1 made different calls some time ago", "call 101, gather"});
}

// The other rank sees the difference when it comes to its end.
TEST_P(LastLookOfZero, AnotherRankIsAhead) {
  make(1, {gather_to(0)});
  EXPECT_TRUE(is_over());
}

TEST_P(LastLookOfZero, AnotherRankClosedAfterMoreCalls) {
  make(0, {gather_to(0)});
  make(1, {gather_to(0), gather_to(1)});
  close(1);
  expect_failure(ErrorCode::kMismatch, {"rank 1 (process ",
                                        "closed its communicator after call 2, gather of 4 float32, "
                                        "root 1, and rank 0 closes its own after 1 call;"});
}

TEST_P(LastLookOfZero, AnotherRankClosedAfterFewerCalls) {
  make(0, {gather_to(0)});
  close(1);
  expect_failure(ErrorCode::kMismatch, {"rank 1 (process ",
                                        "closed its communicator after 0 calls, and rank 0 has made "
                                        "call 1, gather of 4 float32, root 0;"});
}

TEST_P(LastLookOfZero, AnotherRankDied) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  make(1, {gather_to(0)});
  EXPECT_TRUE(is_over(child));  // whatever else it called
  make(0, {gather_to(0)});
  EXPECT_TRUE(is_over(child));
  make(0, {gather_to(1)});
  expect_failure(ErrorCode::kPeerFailed, {"has died after 1 call, and rank 0 has made call 2, gather"}, child);
}

TEST_P(LastLookOfZero, AFailureThatAnotherRankFound) {
  make(0, {gather_to(0)});
  make(1, {gather_to(1)});
  set_failure(segment_->failure(), ErrorCode::kPeerFailed, 1, "something else");
  EXPECT_TRUE(is_over());  // of a later call, as far as this rank knows
  segment_->failure().state.store(FailureRecord::kNone);
  set_failure(segment_->failure(), ErrorCode::kMismatch, 1, "they differ");
  expect_failure(ErrorCode::kMismatch, {"they differ (found by rank 1)"});
}

// The mismatch may be about a message between two other ranks. It concerns only them.
TEST_P(LastLookOfZero, AMismatchOfOthers) {
  for (const int rank : {0, 1}) make(rank, {gather_to(0)});
  set_failure(segment_->failure(), ErrorCode::kMismatch, 1, "they differ");
  EXPECT_TRUE(is_over());
  make(0, {gather_to(0)});
  EXPECT_TRUE(is_over());  // no rank waits for one that will not come
}

}  // namespace
}  // namespace plait
