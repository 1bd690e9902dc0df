// Calls that adapt (TEM-60), on simulated machines whose links change while a program runs.
#include "api/adapted_calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/choice_for.hpp"
#include "base/error.hpp"
#include "model/simulator/simulation.hpp"
#include "plan/form.hpp"
#include "support/seed.hpp"
#include "topology/change.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

constexpr double kNoise = 0.02;

// Two GPUs of a socket of Cedar, between which a message can go over NVLink and over PCIe through the host.
class SimulatedCalls {
 public:
  // `seed` is of the noise.
  explicit SimulatedCalls(uint64_t seed = test::run_seed(), const Settings& settings = {})
      : tuner_(place_on(topology_, 2, settings), settings, {}, false),
        adapted_(tuner_, Logger(), hooks()),
        random_(seed) {}

  // From now on links are so.
  void change(const std::string& changes) {
    now_ = changed(topology_, changes);
    seconds_.clear();
  }

  void run(const Call& call, int times) {
    for (int i = 0; i < times; ++i) {
      adapted_.run(call, [&](const Call& it) {
        const auto plan = it.plan != 0 ? tuner_.given(it.plan) : *tuner_.plan(choice_for(tuner_, it).plan);
        used_.push_back(plan.plan().algorithm);
        clock_ += seconds(plan, it) * (1 + kNoise * (uniform(random_) - 0.5));
      });
    }
  }

  double seconds(const VerifiedPlan& plan, const Call& call) {
    double& known = seconds_[{plan.fingerprint(), call.count}];
    if (known > 0) return known;
    Routes routes(now_, tuner_.machine().placement);
    const SimulatorProgram program = compile(plan.plan(), check_form(plan.plan()), routes);
    const auto bytes = static_cast<double>(message_bytes(call, 2));
    return known = simulate(program, SimulatedMachine(program, now_, Costs{}, FlagPlace::kBehindData, bytes), bytes)
                       .seconds;
  }

  // What the plan in use takes now.
  double in_use(const Call& call) {
    const auto plan = adapted_.plan_in_use(call);
    return seconds(plan ? *plan : *tuner_.plan(choice_for(tuner_, call).plan), call);
  }

  // The least that any share of the host path takes now, in any number of parts.
  double best(const Call& call) {
    double least = in_use(call);
    for (int host = 0; host <= 60; host += 5) {
      for (const int parts : {1, 2, 4, 8, 16, 32}) {
        AlgorithmSpec spec{.name = "multi_path", .parts = parts};
        spec.shares = {{PathKind::kDirect, 100 - host}, {PathKind::kHost, host}};
        if (host == 0) spec = {.name = "chain", .direction = Direction::kStore, .parts = parts};
        const AlgorithmArguments arguments = apply(spec, tuner_.machine().arguments(call.collective, call.root));
        least = std::min(least, seconds(*tuner_.plan({spec.name, arguments, ""}), call));
      }
    }
    return least;
  }

  const std::vector<std::string>& used() const { return used_; }
  bool is_adapted(const Call& call) const { return adapted_.plan_in_use(call) != nullptr; }
  int agreements() const { return agreements_; }
  void refuse_all_but(const std::string& algorithm) { only_ = algorithm; }

 private:
  AdaptedCalls::Hooks hooks() {
    AdaptedCalls::Hooks hooks;
    hooks.can_perform = [this](const Call&, const VerifiedPlan& plan) {
      return only_.empty() || plan.plan().algorithm == only_;
    };
    hooks.greatest = [this](std::span<double>) { ++agreements_; };
    hooks.clock = [this] { return clock_; };
    return hooks;
  }

  const Topology topology_ = machine("cedar", 1);
  Topology now_ = topology_;
  Tuner tuner_;
  AdaptedCalls adapted_;
  test::Random random_;
  double clock_ = 0;
  int agreements_ = 0;
  std::string only_;
  std::vector<std::string> used_;
  std::map<std::pair<uint64_t, size_t>, double> seconds_;

  static double uniform(test::Random& random) { return static_cast<double>(random() % 1001) / 1000; }
};

Call broadcast(size_t bytes) { return {Collective::kBroadcast, DataType::kUint8, ReduceOp::kSum, 0, bytes}; }

// Within 5 % of the best fixed shares, and again after the host path has become slower or faster.
TEST(AdaptedCalls, FollowTheBandwidthOfAPath) {
  const Call call = broadcast(64 << 20);
  SimulatedCalls calls;
  for (const char* change : {"scale:pcie:1", "scale:pcie:0.25", "scale:pcie:2", "scale:nvlink:0.5"}) {
    calls.change(change);
    calls.run(call, 12'000);
    EXPECT_LE(calls.in_use(call), 1.05 * calls.best(call)) << change;
  }
}

TEST(AdaptedCalls, FindWhatTheTunerDidNotKnow) {
  const Call call = broadcast(16 << 20);
  SimulatedCalls calls;
  calls.change("scale:pcie:4");
  const double before = calls.in_use(call);
  calls.run(call, 3000);
  EXPECT_LT(calls.in_use(call), 0.9 * before);
}

// Rounds get longer, of which only the first calls are trials. Noise may let another plan win, and then they are short
// again: of 300 runs, 3 had 80 rounds and more.
TEST(AdaptedCalls, RarelyTryWhereNothingChanges) {
  const Call call = broadcast(1 << 20);
  constexpr size_t kRuns = 5;
  std::array<int, kRuns> rounds{};
  for (size_t run = 0; run < kRuns; ++run) {
    SimulatedCalls calls(test::run_seed() + run);
    calls.run(call, 40'000);
    const int before = calls.agreements();
    calls.run(call, 10'000);
    rounds[run] = calls.agreements() - before;
  }
  std::ranges::sort(rounds);
  EXPECT_LT(rounds[kRuns / 2], 80);  // rounds of the least length: 166
}

TEST(AdaptedCalls, KeepToPlansThatAllRanksCanPerform) {
  const Call call = broadcast(1 << 20);
  SimulatedCalls calls;
  calls.refuse_all_but("none");
  calls.run(call, 100);
  EXPECT_FALSE(calls.is_adapted(call));
}

TEST(AdaptedCalls, StartOnceACallIsMadeAgain) {
  SimulatedCalls calls;
  for (size_t bytes = 1 << 20; bytes < (1 << 20) + 20; ++bytes) calls.run(broadcast(bytes), 2);
  EXPECT_EQ(calls.agreements(), 0);
}

// Calls that are not made any more leave their place to others.
TEST(AdaptedCalls, MakeRoom) {
  SimulatedCalls calls;
  for (size_t bytes = 1000; bytes < 1100; ++bytes) calls.run(broadcast(bytes), 5);
  EXPECT_TRUE(calls.is_adapted(broadcast(1000)));
  EXPECT_FALSE(calls.is_adapted(broadcast(1099)));
  calls.run(broadcast(2000), 12'000);
  EXPECT_TRUE(calls.is_adapted(broadcast(2000)));
  EXPECT_FALSE(calls.is_adapted(broadcast(1000)));
}

TEST(AdaptedCalls, LeaveWhatTheUserPinned) {
  const Call call = broadcast(1 << 20);
  Settings settings;
  settings.algorithm = "broadcast:binomial";
  SimulatedCalls calls(test::run_seed(), settings);
  calls.run(call, 1000);
  EXPECT_FALSE(calls.is_adapted(call));
  for (const std::string& it : calls.used()) EXPECT_EQ(it, calls.used().front());
}

}  // namespace
}  // namespace plait
