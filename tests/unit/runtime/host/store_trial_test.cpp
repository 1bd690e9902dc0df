// Which kind of store a rank takes, by the times that it is told.
#include "runtime/host/store_trial.hpp"

#include <gtest/gtest.h>

#include <tuple>

namespace plait {
namespace {

// A machine on which both kinds of store take these times, and in two turns of three far longer.
struct Machine {
  double ordinary = 1, streaming = 1;

  // Returns how many of so many turns streamed.
  int run(StoreTrial& trial, uint64_t turns) const {
    int streamed = 0;
    for (uint64_t turn = 0; turn < turns; ++turn) {
      trial.begin_turn();
      streamed += trial.streams();
      const double delay = turn % 3 == 1 ? 1 : 100;
      if (trial.is_timed()) trial.note(10, delay * (trial.streams() ? streaming : ordinary));
    }
    return streamed;
  }
};

constexpr uint64_t kBoth = 2 * StoreTrial::kTrialTurns;
constexpr int kStreamedInTrial = StoreTrial::kTrialTurns;

TEST(StoreTrial, TakesStoresPastTheCachesOnlyWhereTheyAreFarFaster) {
  const std::tuple<double, double, bool> cases[] = {
      {14, 1, true}, {2.1, 1, true}, {1.9, 1, false}, {1, 1, false}, {1, 2.5, false}};
  for (const auto& [ordinary, streaming, streams] : cases) {
    StoreTrial trial;
    const Machine machine{ordinary, streaming};
    EXPECT_EQ(machine.run(trial, kBoth), kStreamedInTrial);
    EXPECT_EQ(machine.run(trial, 1000), streams ? 1000 : 0) << ordinary << " and " << streaming;
  }
}

TEST(StoreTrial, FollowsAMachineThatChanges) {
  StoreTrial trial;
  const Machine apart{14, 1}, near{1, 2};
  for (int i = 0; i < 3; ++i) {
    for (const Machine& machine : {apart, near}) {
      EXPECT_EQ(machine.run(trial, kBoth), kStreamedInTrial);
      const bool streams = machine.ordinary > 1;
      const uint64_t turns = streams ? StoreTrial::kTurnsAfterFarFaster : StoreTrial::kTurnsBetweenTrials;
      EXPECT_EQ(machine.run(trial, turns), streams ? static_cast<int>(turns) : 0);
    }
  }
}

// Memory that was left by stores of the other kind tells nothing yet.
TEST(StoreTrial, TimesOnlyStoresAfterOthersOfTheirKind) {
  StoreTrial trial;
  bool kind = false;
  uint64_t alike = 0;
  for (uint64_t turn = 0; turn < 3 * (kBoth + StoreTrial::kTurnsBetweenTrials); ++turn) {
    trial.begin_turn();
    alike = trial.streams() == kind ? alike + 1 : 1;
    kind = trial.streams();
    if (trial.is_timed()) {
      EXPECT_GT(alike, StoreTrial::kWarmUpTurns);
    }
  }
}

TEST(StoreTrial, WithoutTimesItStaysAsItWas) {
  StoreTrial trial;
  for (uint64_t turn = 0; turn < kBoth; ++turn) trial.begin_turn();
  trial.begin_turn();
  EXPECT_TRUE(trial.streams());
}

}  // namespace
}  // namespace plait
