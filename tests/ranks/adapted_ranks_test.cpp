// Calls of ranks that adapt (TEM-60): whatever plans they try, results are right, and all ranks try the same.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "support/expect_outcomes.hpp"
#include "support/random_calls.hpp"
#include "support/rank_processes.hpp"
#include "support/rank_threads.hpp"
#include "support/seed.hpp"

namespace plait::test {
namespace {

constexpr size_t kMostBytes = 60'000;  // of a message: several slices of this scratch memory
constexpr double kLimitSeconds = 120;

// A few random calls, each made again and again between the others.
Sequence repeated_calls(Random& random, int ranks, int different, int times) {
  Sequence sequence = random_sequence(random(), ranks, different, kMostBytes);
  sequence.settings.algorithm.clear();
  sequence.settings.adapt = true;
  const std::vector<Step> steps = std::move(sequence.steps);
  for (int i = 0; i < different * times; ++i) {
    Step step = any_of(random, steps);
    step.exact = true;  // sums of these are exact in any order
    step.repeated = false;
    sequence.steps.push_back(step);
  }
  sequence.name += ", adapted";
  return sequence;
}

TEST(AdaptedRanks, AreRightOnThreads) {
  Random random(run_seed());
  for (const int ranks : {2, 3, 4, 7}) {
    const Sequence sequence = repeated_calls(random, ranks, 4, 150);
    expect_all_well(run_threads(ranks, sequence.settings,
                                [&](Communicator& communicator) { SequenceRunner(communicator, sequence).run(); }));
    if (HasFailure()) return;
  }
}

TEST(AdaptedRanks, AreRightOnProcesses) {
  Random random(run_seed());
  const Sequence sequence = repeated_calls(random, 4, 4, 150);
  const UniqueId id = new_id();
  expect_all_well(run_processes(sequence.ranks, kLimitSeconds, [&](int rank) {
    Communicator communicator = Communicator::create(id, rank, sequence.ranks, sequence.settings);
    SequenceRunner(communicator, sequence).run();
  }));
}

std::set<std::string> plans_of(const std::string& log) {
  std::set<std::string> plans;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const size_t by = line.find(" by ");
    if (line.find("all_reduce of 5000") != std::string::npos && by != std::string::npos) plans.insert(line.substr(by));
  }
  return plans;
}

TEST(AdaptedRanks, TryOtherPlansOnceACallIsMadeAgain) {
  const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 5000};
  for (const bool adapt : {false, true}) {
    Settings settings;
    settings.adapt = adapt;
    settings.log_level = LogLevel::kDebug;
    testing::internal::CaptureStderr();
    expect_all_well(run_threads(3, settings, [&](Communicator& communicator) {
      std::vector<float> input(call.count, 1), output(call.count);
      for (int i = 0; i < 10; ++i) communicator.run(call, input.data(), output.data());
    }));
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(plans_of(log).size() > 1, adapt) << log;
  }
}

// Plans of trials take no room from those that the user gave.
TEST(AdaptedRanks, KeepGivenPlans) {
  Settings settings;
  settings.adapt = true;
  const auto plan = std::make_shared<const VerifiedPlan>(
      verify(make_plan("ring", {.collective = Collective::kAllReduce, .ranks = 2})));
  expect_all_well(run_threads(2, settings, [&](Communicator& communicator) {
    communicator.give(plan);
    std::vector<float> input(3000, 1), output(3000);
    for (size_t count = 1000; count < 1040; ++count) {
      for (int i = 0; i < 5; ++i)
        communicator.all_reduce(input.data(), output.data(), count, DataType::kFloat32, ReduceOp::kSum);
    }
    require(communicator.knows_plan(plan->fingerprint()), "the plan is known");
    communicator.run(plan, input.data(), output.data(), 3000, DataType::kFloat32, ReduceOp::kSum);
    require(output[2999] == 2, "the sum");
  }));
}

// Who calls something else is named, in the middle of trials too.
TEST(AdaptedRanks, FindDifferentCalls) {
  Settings settings;
  settings.adapt = true;
  settings.timeout_seconds = 20;
  const Outcomes outcomes = run_threads(2, settings, [&](Communicator& communicator) {
    std::vector<float> input(100, 1), output(100);
    for (int i = 0; i < 50; ++i)
      communicator.all_reduce(input.data(), output.data(), 100, DataType::kFloat32, ReduceOp::kSum);
    const size_t count = communicator.rank() == 0 ? 100 : 50;
    communicator.all_reduce(input.data(), output.data(), count, DataType::kFloat32, ReduceOp::kSum);
    communicator.all_reduce(input.data(), output.data(), 100, DataType::kFloat32, ReduceOp::kSum);
  });
  for (const Outcome& outcome : outcomes) EXPECT_EQ(objection(outcome, ErrorCode::kMismatch, {"all_reduce"}), "");
}

}  // namespace
}  // namespace plait::test
