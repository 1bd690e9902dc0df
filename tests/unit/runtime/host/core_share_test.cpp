// When a waiting rank finds that something works on its core.
#include "runtime/host/core_share.hpp"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(CoreShare, TurnsOfRanksThatWaitAreNoWork) {
  CoreShare core;
  EXPECT_FALSE(core.is_wanted());
  for (int i = 0; i < 1000; ++i) core.yielded(1 + i * 1e-4, 1 + i * 1e-4 + 5e-5);
  EXPECT_FALSE(core.is_wanted());
}

TEST(CoreShare, WorkIsRememberedForManyOfItsTurns) {
  CoreShare core;
  core.yielded(1, 1.004);
  EXPECT_TRUE(core.is_wanted());
  core.slept(1.03);
  EXPECT_TRUE(core.is_wanted());
  core.slept(1.1);
  EXPECT_FALSE(core.is_wanted());
}

TEST(CoreShare, ShortWorkIsSoonForgotten) {
  CoreShare core;
  core.yielded(1, 1.001);
  EXPECT_TRUE(core.is_wanted());
  core.slept(1.02);
  EXPECT_FALSE(core.is_wanted());
}

}  // namespace
}  // namespace plait
