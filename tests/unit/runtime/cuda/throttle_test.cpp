// How long launches are held back.
#include "runtime/cuda/driver/throttle.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace plait {
namespace {

using std::chrono::milliseconds;

// Of tries every 20 ms, for so long, those that hold launches back: when, and for how long.
struct Held {
  milliseconds at, length;
};
std::vector<Held> held_within(Throttle& throttle, milliseconds length) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Held> all;
  for (milliseconds at{0}; at < length; at += milliseconds(20)) {
    const milliseconds held = throttle.for_try(begin + at);
    if (held.count() > 0) all.push_back({at, held});
  }
  return all;
}

TEST(Throttle, NotAtFirst) {
  Throttle throttle;
  EXPECT_TRUE(held_within(throttle, milliseconds(200)).empty());
}

TEST(Throttle, LongerAndLongerButATenthOfTheTime) {
  Throttle throttle;
  const std::vector<Held> all = held_within(throttle, milliseconds(60'000));
  ASSERT_GE(all.size(), 10u);
  EXPECT_EQ(all.front().length, milliseconds(10));
  EXPECT_EQ(all.back().length, milliseconds(1000));
  for (size_t i = 1; i < all.size(); ++i) {
    EXPECT_GE(all[i].at - all[i - 1].at, 10 * all[i - 1].length);
    EXPECT_LE(all[i].length, 2 * all[i - 1].length);
  }
}

TEST(Throttle, BeginsAnew) {
  Throttle throttle;
  held_within(throttle, milliseconds(10'000));
  throttle.reset();
  const std::vector<Held> all = held_within(throttle, milliseconds(300));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].length, milliseconds(10));
}

}  // namespace
}  // namespace plait
