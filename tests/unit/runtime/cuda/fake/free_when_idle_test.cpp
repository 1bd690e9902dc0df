// Memory is freed at once, or when no call is under way.
#include "runtime/cuda/driver/free_when_idle.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "runtime/cuda/driver/call_order.hpp"
#include "support/fake_cuda.hpp"

namespace plait {
namespace {

using test::FakeCuda;

class FreeWhenIdleTest : public testing::Test {
 protected:
  void SetUp() override { cuda.reset(); }

  void free_on(int device) {
    free_when_idle(device, [this, device] {
      int current = -1;
      cudaGetDevice(&current);
      if (cuda.is_busy()) ++freed_amid_calls;
      if (current != device) ++freed_elsewhere;
      ++freed;
    });
  }
  void await(int expected) const {
    for (int tries = 0; tries < 1000 && freed < expected; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(freed, expected);
  }

  FakeCuda& cuda = FakeCuda::get();
  CallOrder order{0};
  std::atomic<int> freed{0}, freed_amid_calls{0}, freed_elsewhere{0};
};

TEST_F(FreeWhenIdleTest, FreesAtOnceIfNothingRuns) {
  free_on(0);
  EXPECT_EQ(freed, 1);
}

TEST_F(FreeWhenIdleTest, FreesAfterCallsThatAreUnderWay) {
  order.next(nullptr, [] {});
  free_on(1);
  free_on(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(freed, 0);
  cuda.end_calls();
  await(2);
  EXPECT_EQ(freed_amid_calls, 0);
  EXPECT_EQ(freed_elsewhere, 0);
  order.next(nullptr, [] {});  // once more, when its thread has ended or is about to
  free_on(1);
  EXPECT_EQ(freed, 2);
  cuda.end_calls();
  await(3);
}

TEST_F(FreeWhenIdleTest, LimitsHowManyWaitPerGpu) {
  order.next(nullptr, [] {});
  for (int i = 0; i < 8; ++i) free_on(0);
  for (int i = 0; i < 8; ++i) free_on(1);
  EXPECT_EQ(freed, 0);
  free_on(0);
  EXPECT_EQ(freed, 1);
  EXPECT_EQ(freed_amid_calls, 1);
  cuda.end_calls();
  await(17);
  EXPECT_EQ(freed_amid_calls, 1);
}

// As if the process ended meanwhile. The test runs in a separate process, because nothing can be freed there
// afterwards.
TEST_F(FreeWhenIdleTest, FreesNothingAfterCudaHasShutDown) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto end_meanwhile = [&] {
    order.next(nullptr, [] {});
    free_on(0);
    cuda.go();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::exit(freed);
  };
  EXPECT_EXIT(end_meanwhile(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace plait
