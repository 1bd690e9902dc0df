// The rate of a network from rounds, on links of known behaviour.
#include "tuner/network_rounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace plait {
namespace {

// A link as a token bucket and busy hosts make it.
struct ShapedLink {
  double gbps = 1, line_gbps = 10;
  double burst_bytes = 0;   // that pass at the rate of the line, once
  double late_seconds = 0;  // a rank comes so late to the first round
  double noise = 0;         // every other round takes so much more, as a share

  NetworkRounds measured() {
    NetworkRounds rounds;
    while (!rounds.is_over()) {
      const double late = rounds.rounds() == 0 ? late_seconds : 0, slower = rounds.rounds() % 2 == 0 ? 1 + noise : 1;
      const double seconds = slower * seconds_for(static_cast<double>(rounds.bytes()));
      rounds.agree({late + seconds, seconds});
    }
    return rounds;
  }

 private:
  double seconds_for(double bytes) {
    const double fast = std::min(bytes, burst_bytes);
    burst_bytes -= fast;
    return fast * 1e-9 / line_gbps + (bytes - fast) * 1e-9 / gbps;
  }
};

TEST(NetworkRounds, FindsTheRateOfALink) {
  for (const double gbps : {0.0012, 0.0125, 0.118, 1.2, 2.9, 12.0}) {
    ShapedLink link{.gbps = gbps};
    EXPECT_NEAR(link.measured().gbps(), gbps, 0.05 * gbps) << gbps;
  }
}

// A third too much is no other plan; ten times would be.
TEST(NetworkRounds, CountsLittleOfABurst) {
  for (const double burst : {1e4, 1e5, 5e5, 1e6, 2e6, 3e6}) {
    const double found = ShapedLink{.gbps = 0.118, .line_gbps = 1.2, .burst_bytes = burst}.measured().gbps();
    EXPECT_GE(found, 0.115) << burst;
    EXPECT_LE(found, 0.118 * 1.35) << burst;
  }
}

TEST(NetworkRounds, CountsNoLateRank) {
  const NetworkRounds rounds = ShapedLink{.gbps = 0.118, .late_seconds = 2}.measured();
  EXPECT_NEAR(rounds.gbps(), 0.118, 0.006);
  EXPECT_GT(rounds.rounds(), 2);
}

// Whatever disturbs a round makes it slower.
TEST(NetworkRounds, TakesTheFasterOfTwo) {
  for (const double noise : {0.1, 0.5, 0.9}) {
    EXPECT_NEAR((ShapedLink{.gbps = 0.118, .noise = noise}.measured().gbps()), 0.118, 0.006) << noise;
    EXPECT_NEAR((ShapedLink{.gbps = 1.2, .noise = noise}.measured().gbps()), 1.2, 0.06) << noise;
  }
}

TEST(NetworkRounds, IsSoonOver) {
  for (const double gbps : {0.118, 1.2, 12.0, 100.0}) {
    const NetworkRounds rounds = ShapedLink{.gbps = gbps, .line_gbps = 100}.measured();
    EXPECT_LT(rounds.seconds(), 0.04) << gbps;
    EXPECT_LE(rounds.total_bytes(), size_t{16} << 20) << gbps;
  }
  // A slow link has two rounds, each of no more than the call that wants to know.
  const NetworkRounds slow = ShapedLink{.gbps = 0.01}.measured();
  EXPECT_EQ(slow.rounds(), 2);
  EXPECT_EQ(slow.total_bytes(), size_t{512} << 10);
}

// A host that is kept from its cores, or TCP that sends again after a loss, makes one round many times as long.
TEST(NetworkRounds, ForgetsAStall) {
  for (const double gbps : {0.0125, 0.118, 1.2}) {
    for (int stalled = 0; stalled < 5; ++stalled) {
      NetworkRounds rounds;
      while (!rounds.is_over()) {
        const double seconds =
            static_cast<double>(rounds.bytes()) * 1e-9 / gbps + (rounds.rounds() == stalled ? 0.3 : 0);
        rounds.agree({seconds, seconds});
      }
      EXPECT_NEAR(rounds.gbps(), gbps, 0.05 * gbps) << "round " << stalled;
    }
  }
}

// Two figures: runs that differ by noise have the same plans.
TEST(NetworkRounds, RoundsToTwoFigures) {
  EXPECT_DOUBLE_EQ((ShapedLink{.gbps = 0.11827}.measured().gbps()), 0.12);
  EXPECT_DOUBLE_EQ((ShapedLink{.gbps = 2.4449}.measured().gbps()), 2.4);
}

// All bytes of a round may lie there when a rank looks for them.
TEST(NetworkRounds, StaysFinite) {
  NetworkRounds rounds;
  while (!rounds.is_over()) rounds.agree({0, 0});
  EXPECT_TRUE(std::isfinite(rounds.gbps()));
  EXPECT_GT(rounds.gbps(), 0);
}

}  // namespace
}  // namespace plait
