// How a waiting rank pauses, and how often it looks for an error.
#include "runtime/waiting.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace plait {
namespace {

// Pauses until pause() returns true.
int pauses_to_look(Backoff& backoff) {
  for (int pauses = 1; pauses < 1'000'000; ++pauses) {
    if (backoff.pause()) return pauses;
  }
  return -1;
}

// Only a few pauses: on a busy machine, each that yields the core may take long.
TEST(Backoff, EveryPolicyLooksEveryNowAndThen) {
  for (const auto policy : {WaitPolicy::kAuto, WaitPolicy::kYield, WaitPolicy::kSleep}) {
    for (const bool crowded : {false, true}) {
      Backoff backoff(policy, crowded);
      for (int look = 0; look < 3; ++look) {
        const int pauses = pauses_to_look(backoff);
        EXPECT_GE(pauses, 1);
        EXPECT_LE(pauses, 5000) << name(policy);
      }
    }
  }
  Backoff spinner(WaitPolicy::kSpin, true);
  for (int look = 0; look < 3; ++look) EXPECT_LE(pauses_to_look(spinner), 5000);
}

TEST(Backoff, ShortWaitsAreNotLookedAt) {
  Backoff alone(WaitPolicy::kAuto, false), crowded(WaitPolicy::kAuto, true), sleeper(WaitPolicy::kSleep, false);
  EXPECT_GT(pauses_to_look(alone), 1000);  // spins first
  EXPECT_EQ(pauses_to_look(crowded), 64);  // yields the core at once
  EXPECT_EQ(pauses_to_look(sleeper), 1);
}

TEST(Backoff, ResetBeginsAgain) {
  Backoff backoff(WaitPolicy::kAuto, false);
  EXPECT_GT(pauses_to_look(backoff), 1000);
  EXPECT_EQ(pauses_to_look(backoff), 64);  // it no longer spins
  backoff.reset();
  EXPECT_GT(pauses_to_look(backoff), 1000);
}

// It may be woken often, so it looks now and then only.
TEST(Backoff, SleepsAtOnceIfThePolicyLeavesItOpen) {
  int sleeps = 0, looks = 0;
  const auto sleep = [&](long) { ++sleeps; };
  Backoff open(WaitPolicy::kAuto, true), yielding(WaitPolicy::kYield, true);
  for (int i = 0; i < 64; ++i) looks += open.sleep(sleep) ? 1 : 0;
  EXPECT_EQ(sleeps, 64);
  EXPECT_EQ(looks, 4);
  yielding.sleep(sleep);
  EXPECT_EQ(sleeps, 64);
}

// However long it has waited, it must not sleep through the moment that it waits for.
TEST(Backoff, SleepsAreShort) {
  Backoff backoff(WaitPolicy::kSleep, true);
  for (int i = 0; i < 250; ++i) backoff.pause();
  double shortest = 1;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    backoff.pause();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    shortest = std::min(shortest, seconds.count());
  }
  EXPECT_GE(shortest, 0.0009);
  EXPECT_LT(shortest, 0.1);
}

}  // namespace
}  // namespace plait
