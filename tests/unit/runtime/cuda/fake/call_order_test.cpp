// The order of calls, and actions while no call is under way.
#include "runtime/cuda/driver/call_order.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/fake_cuda.hpp"

namespace plait {
namespace {

using std::chrono::milliseconds;
using test::FakeCuda;

cudaStream_t stream(uintptr_t number) { return reinterpret_cast<cudaStream_t>(number * 64); }

class CallOrderTest : public testing::Test {
 protected:
  void SetUp() override { cuda.reset(); }

  // Whether while_none_runs() ran its action.
  static bool can_act(milliseconds timeout = milliseconds(0)) {
    bool acted = false;
    const bool said = CallOrder::while_none_runs(timeout, [&] { acted = true; });
    EXPECT_EQ(acted, said);
    return acted;
  }

  FakeCuda& cuda = FakeCuda::get();
};

TEST_F(CallOrderTest, AnotherStreamWaitsForTheLastCall) {
  CallOrder order(0);
  int launches = 0;
  const auto launch = [&] { ++launches; };
  order.next(stream(1), launch);
  order.next(stream(1), launch);
  EXPECT_EQ(cuda.waits(), 0u);
  order.next(stream(2), launch);
  EXPECT_EQ(cuda.waits(), 1u);
  order.next(stream(1), launch);
  EXPECT_EQ(cuda.waits(), 2u);
  EXPECT_EQ(launches, 4);
}

// A stream was destroyed with calls on it, and a new one has the same handle.
TEST_F(CallOrderTest, AStreamThatReusesAHandleIsAnotherStream) {
  CallOrder order(0);
  order.next(stream(1), [] {});
  cuda.renew_stream(stream(1));
  order.next(stream(1), [] {});
  EXPECT_EQ(cuda.waits(), 1u);
}

TEST_F(CallOrderTest, DoesNotActWhileAnyCallIsUnderWay) {
  CallOrder one(0), other(0);
  EXPECT_TRUE(can_act());
  other.next(stream(1), [] {});
  EXPECT_FALSE(can_act());
  cuda.end_calls();
  EXPECT_TRUE(can_act());
  {
    CallOrder gone(0);
    gone.next(stream(1), [] {});
    EXPECT_FALSE(can_act());
  }
  EXPECT_TRUE(can_act());
}

TEST_F(CallOrderTest, DoesNotActDuringALaunch) {
  CallOrder order(0);
  order.next(stream(1), [&] { std::thread([&] { EXPECT_FALSE(can_act(milliseconds(2))); }).join(); });
}

// Nobody acts during work that does not go on a stream, and calls before it are over.
TEST_F(CallOrderTest, WorkAtOnceComesAfterAllCalls) {
  CallOrder order(0);
  order.next(stream(1), [] {});
  bool worked = false;
  EXPECT_THROW(order.at_once([&] { worked = true; }), Error);  // CUDA would wait; the fake says that a call is not over
  EXPECT_FALSE(worked);
  cuda.end_calls();
  order.at_once([&] {
    worked = true;
    std::thread([&] { EXPECT_FALSE(can_act(milliseconds(2))); }).join();
  });
  EXPECT_TRUE(worked);
  EXPECT_TRUE(can_act());
  order.next(stream(2), [] {});
  EXPECT_EQ(cuda.waits(), 0u);  // there is nothing to wait for
  EXPECT_FALSE(can_act());
}

TEST_F(CallOrderTest, DelaysLaunchesWhileItActs) {
  CallOrder order(0);
  std::atomic<bool> launched{false};
  std::thread launching;
  const bool acted = CallOrder::while_none_runs(milliseconds(0), [&] {
    launching = std::thread([&] { order.next(stream(1), [&] { launched = true; }); });
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_FALSE(launched);
  });
  ASSERT_TRUE(acted);
  launching.join();
  EXPECT_TRUE(launched);
}

// Launches are delayed, so that calls under way can end.
TEST_F(CallOrderTest, DelaysLaunchesWhileItWaits) {
  CallOrder order(0);
  order.next(stream(1), [] {});
  std::atomic<bool> acted{false}, launched{false};
  std::thread acting([&] {
    EXPECT_TRUE(CallOrder::while_none_runs(milliseconds(60'000), [&] {
      EXPECT_FALSE(launched);
      acted = true;
    }));
  });
  // It asks whether calls are under way once it delays launches.
  while (cuda.queries() == 0) std::this_thread::yield();
  std::thread launching([&] {
    order.next(stream(1), [&] {
      EXPECT_TRUE(acted);
      launched = true;
    });
  });
  std::this_thread::sleep_for(milliseconds(50));  // a launch that is not delayed would happen now
  EXPECT_FALSE(acted);
  cuda.end_calls();
  acting.join();
  launching.join();
  EXPECT_TRUE(launched);
}

TEST_F(CallOrderTest, TimeoutEnds) {
  CallOrder order(0);
  order.next(stream(1), [] {});
  EXPECT_FALSE(can_act(milliseconds(20)));
  order.next(stream(1), [] {});  // launches work again
}

}  // namespace
}  // namespace plait
