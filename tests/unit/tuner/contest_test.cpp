// Contests beside a comparison of all candidates.
#include "tuner/contest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "support/seed.hpp"

namespace plait {
namespace {

constexpr size_t kMost = size_t{1} << 30;

// Candidates whose times are lines, and never less than a half of what is known beforehand.
class Race {
 public:
  explicit Race(test::Random& random) {
    const int count = test::between(random, 1, 30);
    for (int i = 0; i < count; ++i) {
      Candidate it;
      it.choice.algorithm = join("given ", i);
      it.choice.given = static_cast<uint64_t>(i) + 1;
      it.steps = i;
      candidates.all.push_back(std::move(it));
      starts_.push_back(1e-6 * test::between(random, 1, 100));
      slopes_.push_back(1e-12 * test::between(random, 10, 1000));
    }
    watch.seconds = [this](const Candidate& it, size_t bytes, double most) {
      ++timed;
      const double taken = seconds(it, static_cast<double>(bytes));
      return taken > most ? std::nullopt : std::optional(taken);
    };
    watch.least = [this](const Candidate& it, size_t bytes) { return seconds(it, static_cast<double>(bytes)) / 2; };
    watch.most_bytes = kMost;
  }

  double seconds(const Candidate& it, double bytes) const {
    const size_t index = it.choice.given - 1;
    return starts_[index] + slopes_[index] * bytes;
  }
  double least(double bytes) const {
    double least = std::numeric_limits<double>::infinity();
    for (const Candidate& it : candidates.all) least = std::min(least, seconds(it, bytes));
    return least;
  }
  const Candidate* fastest(double bytes, double limit = std::numeric_limits<double>::infinity()) {
    return contest.fastest(candidates, bytes, watch, [limit](size_t) { return limit; });
  }

  Candidates candidates;
  Contest contest;
  Stopwatch watch;
  int timed = 0;

 private:
  std::vector<double> starts_, slopes_;
};

// At sampled sizes nobody is faster. Times of steps that count as equal are 1.001 times apart.
TEST(Contest, IsWonByTheFastestAtSampledSizes) {
  test::Random random(test::run_seed());
  for (int round = 0; round < test::times_to_try(300); ++round) {
    Race race(random);
    const double bytes = static_cast<double>(size_t{1024} << 2 * test::between(random, 0, 10));
    const Candidate* const won = race.fastest(bytes);
    ASSERT_NE(won, nullptr);
    EXPECT_LE(race.seconds(*won, bytes), race.least(bytes) * 1.0011);
  }
}

// Two samples, each of every candidate once at most, and further calls between them cost nothing.
TEST(Contest, TimesNobodyTwice) {
  test::Random random(test::run_seed());
  for (int round = 0; round < test::times_to_try(100); ++round) {
    Race race(random);
    race.fastest(10000);
    const int timed = race.timed;
    EXPECT_LE(timed, 2 * static_cast<int>(race.candidates.all.size()));
    for (int again = 0; again < 10; ++again) race.fastest(test::between(random, 8193, 16384));
    EXPECT_EQ(race.timed, timed);
  }
}

TEST(Contest, IsWonByNobodyAboveTheLimit) {
  test::Random random(test::run_seed());
  for (int round = 0; round < test::times_to_try(100); ++round) {
    Race slow(random), quick(random);
    EXPECT_EQ(slow.fastest(1024, slow.least(16) / 2), nullptr);
    EXPECT_NE(quick.fastest(1024, quick.least(1024) * 1.1), nullptr);
  }
}

// Times are lines, so what lies between samples is exact, as is what lies beyond.
TEST(Contest, GoesByTheByteBetweenSamples) {
  test::Random random(test::run_seed());
  for (int round = 0; round < test::times_to_try(300); ++round) {
    Race race(random);
    const double bytes = test::between(random, 16, 1 << test::between(random, 5, 30)) * 8.0;
    const Candidate& it = race.candidates.all.front();
    const double expected = race.seconds(it, bytes);
    EXPECT_NEAR(race.contest.seconds(it, bytes, race.watch).value(), expected, 1e-9 * expected) << bytes;
  }
}

TEST(Contest, LeavesOutWhatCannotBeTimed) {
  test::Random random(test::run_seed());
  Race race(random);
  race.watch.seconds = [](const Candidate&, size_t, double) { return std::optional<double>(); };
  EXPECT_EQ(race.fastest(1 << 20), nullptr);
}

}  // namespace
}  // namespace plait
