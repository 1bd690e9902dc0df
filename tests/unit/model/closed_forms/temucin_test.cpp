// A message over two paths: no other share is faster.
#include "model/closed_forms/temucin.hpp"

#include <gtest/gtest.h>

#include <random>

#include "support/seed.hpp"

namespace plait::closed_forms {
namespace {

TEST(TemucinForms, NoShareIsBetterThanTheBest) {
  test::Random random(test::run_seed());
  std::uniform_real_distribution<double> start(0, 2e-5), bandwidth(1e9, 1e11), bytes(1, 1e8);
  std::uniform_int_distribution<int> parts(1, 32);
  for (int trial = 0; trial < 300; ++trial) {
    const LinkCost direct = {start(random), bandwidth(random)};
    const StagedPath host = {{start(random), bandwidth(random)}, parts(random)};
    const double message = bytes(random), best = best_host_share(message, direct, host);
    const double least = two_paths_seconds(message, best, direct, host);
    for (int percent = 0; percent <= 100; ++percent) {
      EXPECT_GE(two_paths_seconds(message, percent / 100.0, direct, host), least * (1 - 1e-9)) << percent << " %";
    }
  }
}

TEST(TemucinForms, LongMessagesGetBothBandwidths) {
  struct {
    double direct, host, sum;                               // 10^9 bytes/s
  } constexpr kMachines[] = {{75, 75, 150}, {50, 16, 66}};  // Mist, Cedar (TEM-28)
  for (const auto& it : kMachines) {
    const LinkCost direct = {2e-6, it.direct * 1e9};
    const StagedPath host = {{8e-6, it.host * 1e9}, 1 << 20};
    EXPECT_NEAR(best_host_share(1e14, direct, host), it.host / it.sum, 1e-5);
    const double seconds = two_paths_seconds(1e14, best_host_share(1e14, direct, host), direct, host);
    EXPECT_NEAR(1e14 / seconds, it.sum * 1e9, 1e-5 * it.sum * 1e9);
  }
}

TEST(TemucinForms, ShortMessagesTakeTheQuickerPath) {
  const LinkCost direct = {2e-6, 50e9};
  EXPECT_EQ(best_host_share(64, direct, {{8e-6, 16e9}, 4}), 0);
  EXPECT_EQ(best_host_share(64, direct, {{1e-6, 16e9}, 4}), 1);
  EXPECT_EQ(best_host_share(0, direct, {{1e-6, 16e9}, 4}), 0);
}

}  // namespace
}  // namespace plait::closed_forms
