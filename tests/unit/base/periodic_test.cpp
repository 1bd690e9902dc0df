// A thing that is done again and again, until it ends.
#include "base/periodic.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace plait {
namespace {

using std::chrono::milliseconds;

TEST(Periodic, ActsAgainAndAgainUntilItEnds) {
  std::atomic<int> acts{0};
  {
    const Periodic periodic(milliseconds(1), [&] { ++acts; });
    while (acts < 5) std::this_thread::yield();
  }
  const int at_the_end = acts;
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(acts, at_the_end);
}

TEST(Periodic, EndsWithoutWaitingForItsPause) {
  int acts = 0;
  {
    const Periodic periodic(std::chrono::hours(1), [&] { ++acts; });
  }
  EXPECT_EQ(acts, 0);
}

TEST(Periodic, WaitsForAnActUnderWay) {
  std::atomic<bool> acting{false}, over{false};
  {
    const Periodic periodic(milliseconds(1), [&] {
      acting = true;
      std::this_thread::sleep_for(milliseconds(30));
      over = true;
    });
    while (!acting) std::this_thread::yield();
  }
  EXPECT_TRUE(over);
}

}  // namespace
}  // namespace plait
