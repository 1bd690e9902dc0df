// The errors that users read after a kernel gave up.
#include "runtime/cuda/rank/watchdog.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace plait {
namespace {

// Rank 1 of a communicator. It only keeps why the communicator ended.
class State : public CommunicatorState {
 public:
  explicit State(ProcessSharing sharing) : sharing_(sharing) {}
  int rank() const override { return 1; }
  ProcessSharing process_sharing() const override { return sharing_; }
  void announce(const Call&) override {}
  std::optional<Error> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool has_failed() const override { return failure().has_value(); }
  void abort(ErrorCode code, const std::string& message) override {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_.emplace(code, message);
  }
  void compare_calls() override {}
  void look_after_peers() override {}
  std::optional<uint64_t> awaited_call() const override {
    const uint64_t call = awaited.load();
    return call > 0 ? std::optional(call) : std::nullopt;
  }
  std::string describe() const override { return "what each rank called"; }
  std::byte* agreement_memory() const override { return nullptr; }
  std::byte* message_agreement_memory(int, int) const override { return nullptr; }
  Exports& exports(int) const override { throw std::logic_error("nothing is exported"); }

  std::atomic<uint64_t> awaited{0};  // the number of a call; 0: none

 private:
  const ProcessSharing sharing_;
  mutable std::mutex mutex_;
  std::optional<Error> failure_;
};

ChannelFailure failure_of(ChannelFailure::State state, int operation = 5) {
  ChannelFailure failure;
  failure.state = state;
  failure.peer = 3;
  failure.operation = operation;
  failure.expected_epoch = 8;
  failure.seen_epoch = 6;
  return failure;
}

// "code: text" of the error that ends the communicator; "" if there is none.
std::string failure_from(const std::function<void(Reports&)>& write, ProcessSharing sharing = ProcessSharing::kNone) {
  State state(sharing);
  auto reports = std::make_unique<Reports>();
  write(*reports);
  Watchdog(state, *reports, {}).poll_reports();
  const std::optional<Error> failure = state.failure();
  return failure ? join(name(failure->code()), ": ", failure->what()) : "";
}

constexpr int kQueue = 2 * kMostQueues + 1;  // queue 1 of channel 2

std::string failure_from(const ChannelFailure& of_channel) {
  return failure_from([&](Reports& reports) { reports.channels[kQueue] = of_channel; });
}

TEST(Watchdog, SaysNothingIfNothingIsReported) {
  EXPECT_EQ(failure_from([](Reports&) {}), "");
}

TEST(Watchdog, AWaitThatTimedOut) {
  EXPECT_EQ(
      failure_from(failure_of(ChannelFailure::kTimedOut)),
      join(name(ErrorCode::kTimeout),
           ": rank 1, CTA 2, queue 1 waited longer than PLAIT_TIMEOUT_SEC allows for rank 3 at operation 5 of its "
           "queue, in epoch 8; the last epoch seen was 6; what each rank called"));
  EXPECT_NE(failure_from(failure_of(ChannelFailure::kTimedOut, ChannelFailure::kEarlierEpoch))
                .find("for rank 3 at its wait for the others to finish an earlier epoch, in epoch 8"),
            std::string::npos);
  EXPECT_NE(failure_from(failure_of(ChannelFailure::kTimedOut, ChannelFailure::kData))
                .find("for rank 3 at its wait for data, in epoch 8"),
            std::string::npos);
}

// A launch that blocks keeps the user's thread from launching for another rank.
TEST(Watchdog, TellsThatLaunchesBlock) {
  const auto is_told = [](const char* setting, ProcessSharing sharing) {
    ::setenv("CUDA_LAUNCH_BLOCKING", setting, 1);
    const std::string text = failure_from(
        [](Reports& reports) { reports.channels[kQueue] = failure_of(ChannelFailure::kTimedOut); }, sharing);
    ::unsetenv("CUDA_LAUNCH_BLOCKING");
    return text.find("need a thread each") != std::string::npos;
  };
  EXPECT_TRUE(is_told("1", ProcessSharing::kAll));
  EXPECT_TRUE(is_told("1", ProcessSharing::kSome));
  EXPECT_FALSE(is_told("1", ProcessSharing::kNone));
  EXPECT_FALSE(is_told("0", ProcessSharing::kAll));
  EXPECT_FALSE(is_told("", ProcessSharing::kAll));
}

TEST(Watchdog, ACallThatDiffers) {
  EXPECT_EQ(failure_from(failure_of(ChannelFailure::kOtherCall)),
            join(name(ErrorCode::kMismatch),
                 ": rank 1, CTA 2, queue 1: rank 3 makes another call at the same time (seen at operation 5 of its "
                 "queue); what each rank called"));
  ChannelFailure own = failure_of(ChannelFailure::kOtherCall);
  own.peer = 1;  // according to this rank's plan
  EXPECT_NE(failure_from(own).find("another rank makes another call"), std::string::npos);
}

// The report is that of the channel furthest behind. Channels of the host path and of long plans, whose epochs do not
// compare, count only if no channel before them gave up.
TEST(Watchdog, TheQueueFurthestBehindIsReported) {
  ChannelFailure behind = failure_of(ChannelFailure::kTimedOut), of_host = behind;
  behind.expected_epoch = 7;
  of_host.expected_epoch = 1;
  const auto reported = [&](bool others) {
    return failure_from([&, others](Reports& reports) {
      reports.channels[kMostChannels * kMostQueues] = of_host;
      if (!others) return;
      reports.channels[kQueue] = failure_of(ChannelFailure::kTimedOut);
      reports.channels[4 * kMostQueues] = behind;
    });
  };
  EXPECT_NE(reported(true).find("rank 1, CTA 4, queue 0 waited"), std::string::npos);
  EXPECT_NE(reported(false).find("rank 1, CTA 0 of the host path, queue 0 waited"), std::string::npos);
  const auto of_long = [&](bool others) {
    return failure_from([&, others](Reports& reports) {
      reports.channels[LongRoom::state_of(3, 20)] = of_host;
      if (others) reports.channels[kQueue] = behind;
    });
  };
  EXPECT_NE(of_long(true).find("rank 1, CTA 2, queue 1 waited"), std::string::npos);
  EXPECT_NE(of_long(false).find("rank 1, CTA 3 of a long plan, queue 20 waited"), std::string::npos);
}

TEST(Watchdog, Messages) {
  EXPECT_EQ(failure_from([](Reports& reports) { reports.receives[3] = failure_of(ChannelFailure::kOtherSize); }),
            join(name(ErrorCode::kMismatch),
                 ": rank 1, in a receive from rank 3: rank 3 sent a message of 6 bytes, and the receive is of 8 bytes; "
                 "both ends must give the same size"));
  EXPECT_EQ(failure_from([](Reports& reports) { reports.sends[3] = failure_of(ChannelFailure::kTimedOut); }),
            join(name(ErrorCode::kTimeout),
                 ": rank 1, in a send to rank 3, waited longer than PLAIT_TIMEOUT_SEC allows for rank 3 to receive "
                 "(pieces expected: 8, seen: 6); what each rank called"));
}

TEST(Watchdog, Barriers) {
  const auto at_barrier = [](BarrierKind kind, ChannelFailure::State state) {
    return failure_from([&](Reports& reports) { reports.barriers[barrier_index(kind, 3)] = failure_of(state); });
  };
  EXPECT_EQ(at_barrier(BarrierKind::kCollective, ChannelFailure::kOtherCall),
            join(name(ErrorCode::kMismatch),
                 ": rank 1, in a barrier before or after copies: rank 3 makes another call at the same time; what each "
                 "rank called"));
  EXPECT_EQ(at_barrier(BarrierKind::kReceive, ChannelFailure::kTimedOut),
            join(name(ErrorCode::kTimeout),
                 ": rank 1, in a zero-copy receive, waited longer than PLAIT_TIMEOUT_SEC allows "
                 "for rank 3 to send (signals expected: 8, seen: 6); what each rank called"));
}

// The log while calls are awaited, each for several polls of the watchdog.
std::string log_of(const std::vector<uint64_t>& awaited, double seconds_each, const WaitLimits& limits) {
  testing::internal::CaptureStderr();
  {
    State state(ProcessSharing::kNone);
    auto reports = std::make_unique<Reports>();
    const Watchdog watch(state, *reports, limits);
    for (const uint64_t call : awaited) {
      state.awaited = call;
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds_each));
    }
  }
  return testing::internal::GetCapturedStderr();
}

TEST(Watchdog, ALateCallOfOthersIsLogged) {
  WaitLimits limits;
  limits.notice_seconds = 0.1;
  const std::string log = log_of({7}, 0.5, limits);
  EXPECT_TRUE(
      log.starts_with("plait: warn: has waited 0.1 s for all ranks to make call 7; what each rank called; "
                      "fails after 600 s (PLAIT_TIMEOUT_SEC)\nplait: warn: has waited 0.2 s"))
      << log;
  limits.log = Logger(LogLevel::kError);
  EXPECT_EQ(log_of({7}, 0.3, limits), "");
}

TEST(Watchdog, CallsThatOthersMakeInTimeAreNotLogged) {
  WaitLimits limits;
  limits.notice_seconds = 1.5;
  EXPECT_EQ(log_of({1, 2, 3, 4, 0, 4}, 0.35, limits), "");
}

}  // namespace
}  // namespace plait
