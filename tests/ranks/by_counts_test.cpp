// Collectives with blocks of unequal sizes, on ranks that are threads, processes, or processes on several hosts: random
// counts, displacements, types and algorithms against a serial oracle; and ranks that disagree, die or do not come.
#include <gtest/gtest.h>

#include "support/expect_outcomes.hpp"
#include "support/random_counts.hpp"
#include "support/rank_threads.hpp"
#include "support/several_hosts.hpp"

namespace plait::test {
namespace {

constexpr size_t kMostBytes = 60'000;  // of a buffer with even blocks: several slices of this scratch memory

void run_as_threads(const UnevenSequence& sequence) {
  expect_all_well(run_threads(sequence.ranks, sequence.settings,
                              [&](Communicator& communicator) { run_uneven(communicator, sequence); }));
}

void run_as_processes(const UnevenSequence& sequence) {
  expect_all_well(run_processes(sequence.ranks, kLimit,
                                with_communicator(sequence.ranks, sequence.settings, [&](Communicator& communicator) {
                                  run_uneven(communicator, sequence);
                                })));
}

TEST(ByCounts, RandomSequencesOnThreads) {
  Random random(run_seed());
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 11, 16}) {
    run_as_threads(random_uneven_sequence(random(), ranks, ranks > 8 ? 15 : 40, kMostBytes));
    if (HasFailure()) return;
  }
}

TEST(ByCounts, RandomSequencesOnProcesses) {
  Random random(run_seed());
  for (const int ranks : {2, 3, 4, 6, 13, 16}) {
    run_as_processes(random_uneven_sequence(random(), ranks, ranks > 8 ? 15 : 40, kMostBytes));
    if (HasFailure()) return;
  }
}

TEST(ByCounts, EveryTypeAndOperation) {
  Random random(run_seed());
  UnevenSequence sequence = random_uneven_sequence(random(), 3, 0, kMostBytes);
  sequence.settings.algorithm = "";
  for (const Collective collective : kByCounts) {
    for (int type = 0; type < kDataTypeCount; ++type) {
      for (const ReduceOp op : reductions_of(static_cast<DataType>(type))) {
        if (!reduces(collective) && op != ReduceOp::kSum) continue;
        UnevenStep step;
        do step = random_uneven_step(random, 3, 3000);
        while (step.call.collective != collective);
        step.call.type = static_cast<DataType>(type);
        step.call.op = op;
        sequence.steps.push_back(step);
      }
    }
  }
  run_as_threads(sequence);
}

// Long enough for blocks that go past the caches and through each slot many times.
TEST(ByCounts, LargeBlocks) {
  UnevenSequence sequence;
  sequence.ranks = 2;
  sequence.settings.timeout_seconds = 30;
  for (const Collective collective : kByCounts) {
    UnevenStep step;
    step.call = {collective, DataType::kFloat32, ReduceOp::kSum, 0, 0};
    step.counts = {{2'000'003, 5}, {17, 1'000'001}};
    sequence.steps.push_back(step);
  }
  run_as_processes(sequence);
}

TEST(ByCounts, OverSeveralHosts) {
  if (const std::string missing = missing_network(); !missing.empty()) GTEST_SKIP() << missing;
  Random random(run_seed());
  for (int round = 0; round < 5; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 5);
    UnevenSequence sequence = random_uneven_sequence(random(), ranks, 25, kMostBytes);
    sequence.settings.algorithm = "";  // those that are pinned may be for one host
    sequence.settings.scratch_bytes = size_t{64} << 10 << random() % 3;
    expect_all_well(run_processes(ranks, kLimit,
                                  over_hosts(random_hosts(random, ranks), sequence.settings,
                                             [&](Communicator& communicator) { run_uneven(communicator, sequence); })));
    if (HasFailure()) return;
  }
}

// Counts differ from call to call, plans do not.
TEST(ByCounts, APlanServesAllCounts) {
  std::vector<Communicator> alone = Communicator::in_process(1, {});
  Call call{Collective::kAllToAll, DataType::kInt32, ReduceOp::kSum, 0, 0};
  call.by_counts = true;
  const VerifiedPlan* const plan = &alone[0].plan_for(call);
  for (const size_t count : {size_t{3}, size_t{0}, size_t{1000}}) {
    const std::vector<int32_t> input(count, 7);
    std::vector<int32_t> output(count, 0);
    alone[0].all_to_all_v(input.data(), {{&count, 1}}, output.data(), {{&count, 1}}, DataType::kInt32);
    EXPECT_EQ(output, input);
    EXPECT_EQ(&alone[0].plan_for(call), plan);
  }
  EXPECT_EQ(plan->plan().algorithm, "linear");
}

void exchange(Communicator& communicator, size_t count) {
  const std::vector<size_t> counts(static_cast<size_t>(communicator.size()), count);
  std::vector<int32_t> input(count * counts.size(), communicator.rank()), output(input.size());
  communicator.all_to_all_v(input.data(), {counts}, output.data(), {counts}, DataType::kInt32);
  for (size_t i = 0; i < output.size(); ++i) {
    require(output[i] == static_cast<int32_t>(i / count), "a call that succeeded gave a wrong result");
  }
}

TEST(ByCounts, ARankThatIsKilledInTheMiddleOfACall) {
  constexpr int kRanks = 4;
  Random random(run_seed());
  for (int round = 0; round < 4; ++round) {
    const int victim = static_cast<int>(random() % kRanks);
    Shared<Progress> progress;
    RankProcesses ranks(kRanks, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
                          call_until_error(communicator, [&](int) {
                            exchange(communicator, 40'000);
                            ++progress->calls[communicator.rank()];
                          });
                        }));
    await_calls(ranks, *progress, victim, static_cast<int>(random() % 20));
    ::usleep(static_cast<useconds_t>(random() % 3000));
    const std::string name = join("rank ", victim, " (process ", ranks.pid(victim));
    ranks.kill(victim);
    const Outcomes outcomes = ranks.wait(kLimit);
    if (progress->calls[victim] == 0) continue;  // killed before the ranks had met
    expect_errors(outcomes, victim, ErrorCode::kPeerFailed, {name, "has died while", "all_to_all_v of int32"});
  }
}

TEST(ByCounts, ARankThatDoesNotComeIsATimeoutThatNamesIt) {
  const Outcomes outcomes = run_processes(3, kLimit, with_communicator(3, fault_settings(), [](Communicator& ranks) {
                                            exchange(ranks, 10);
                                            if (ranks.rank() == 1) sleep_seconds(3 * kFaultTimeout);
                                            exchange(ranks, 100'000);
                                          }));
  expect_errors(outcomes, -1, ErrorCode::kTimeout,
                {"PLAIT_TIMEOUT_SEC", "call 2, all_to_all_v of int32", "rank 1 (pr"});
}

// Whichever pair disagrees, in either direction, and however long the blocks are: all ranks hear which two it was, and
// nothing is written behind a block.
TEST(ByCounts, CountsThatDoNotMatchAreAnErrorOnAllRanks) {
  constexpr int kRanks = 3;
  Random random(run_seed());
  for (int round = 0; round < 12; ++round) {
    const int giver = static_cast<int>(random() % kRanks),
              receiver = (giver + 1 + static_cast<int>(random() % 2)) % kRanks;
    const size_t count = random_count(random, 100'000), expected = count + (one_in(random, 2) ? 1 : 50'000);
    const bool gives_more = one_in(random, 2);
    const Outcomes outcomes = run_processes(
        kRanks, kLimit, with_communicator(kRanks, fault_settings(), [&](Communicator& communicator) {
          std::vector<size_t> gives(kRanks, count), gets(kRanks, count);
          const bool is_giver = communicator.rank() == giver, is_receiver = communicator.rank() == receiver;
          if (is_giver && gives_more) gives[static_cast<size_t>(receiver)] = expected;
          if (is_receiver && !gives_more) gets[static_cast<size_t>(giver)] = expected;
          std::vector<int32_t> input(4 * expected + count), output(input.size(), 7);
          try {
            communicator.all_to_all_v(input.data(), {gives}, output.data(), {gets}, DataType::kInt32);
            communicator.barrier();
          } catch (const Error&) {
            const size_t end = gets[0] + gets[1] + gets[2];
            require(std::all_of(output.begin() + static_cast<std::ptrdiff_t>(end), output.end(),
                                [](int32_t it) { return it == 7; }),
                    "something was written behind the output");
            throw;
          }
        }));
    const size_t given = gives_more ? expected : count, got = gives_more ? count : expected;
    expect_errors(outcomes, -1, ErrorCode::kMismatch,
                  {join("rank ", giver, " gives ", given, " elements to rank ", receiver, ", which expects ", got)});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace plait::test
