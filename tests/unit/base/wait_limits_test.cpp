#include "base/wait_limits.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace plait {
namespace {

std::vector<double> notices(LongWait& wait, double until) {
  std::vector<double> all;
  for (double waited = 0; waited < until; waited += 0.5) {
    if (const auto seconds = wait.notice(waited)) all.push_back(*seconds);
  }
  return all;
}

TEST(LongWait, IsNoticedEachTimeThatItHasDoubled) {
  LongWait wait(60);
  EXPECT_EQ(notices(wait, 600), (std::vector<double>{60, 120, 240, 480}));
  EXPECT_EQ(notices(wait, 600), std::vector<double>{});
}

TEST(LongWait, AnotherOneIsNoticedAnew) {
  LongWait wait(60);
  notices(wait, 200);
  wait.reset();
  EXPECT_EQ(notices(wait, 100), std::vector<double>{60});
}

TEST(LongWait, ShortOnesAreNotNoticed) {
  LongWait wait;
  EXPECT_EQ(notices(wait, kNoticeSeconds), std::vector<double>{});
}

}  // namespace
}  // namespace plait
