// How long launches are delayed.
#include "runtime/cuda/driver/throttle.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace plait {
namespace {

using std::chrono::milliseconds;

// Attempts every 20 ms during `length`: when launches are delayed, and for how long.
struct Delay {
  milliseconds at, length;
};
std::vector<Delay> delays_within(Throttle& throttle, milliseconds length) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Delay> all;
  for (milliseconds at{0}; at < length; at += milliseconds(20)) {
    const milliseconds delay = throttle.for_try(begin + at);
    if (delay.count() > 0) all.push_back({at, delay});
  }
  return all;
}

TEST(Throttle, NoDelayAtFirst) {
  Throttle throttle;
  EXPECT_TRUE(delays_within(throttle, milliseconds(200)).empty());
}

TEST(Throttle, GrowsButStaysBelowATenthOfTheTime) {
  Throttle throttle;
  const std::vector<Delay> all = delays_within(throttle, milliseconds(60'000));
  ASSERT_GE(all.size(), 10u);
  EXPECT_EQ(all.front().length, milliseconds(10));
  EXPECT_EQ(all.back().length, milliseconds(1000));
  for (size_t i = 1; i < all.size(); ++i) {
    EXPECT_GE(all[i].at - all[i - 1].at, 10 * all[i - 1].length);
    EXPECT_LE(all[i].length, 2 * all[i - 1].length);
  }
}

TEST(Throttle, StartsOver) {
  Throttle throttle;
  delays_within(throttle, milliseconds(10'000));
  throttle.reset();
  const std::vector<Delay> all = delays_within(throttle, milliseconds(300));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].length, milliseconds(10));
}

}  // namespace
}  // namespace plait
