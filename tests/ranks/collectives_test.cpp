// Random sequences of collectives on ranks that are threads or processes. Results are right to the bit and nothing else
// is written, whatever the type, the count, the alignment, the algorithm and the memory.
#include <gtest/gtest.h>

#include <set>

#include "api/communicator.hpp"
#include "support/expect_outcomes.hpp"
#include "support/random_calls.hpp"
#include "support/rank_processes.hpp"
#include "support/rank_threads.hpp"
#include "support/seed.hpp"

namespace plait::test {
namespace {

constexpr size_t kMostBytes = 60'000;  // of a message: several slices of this scratch memory
constexpr double kLimitSeconds = 60;   // for one sequence; far more than it takes

void run_as_threads(const Sequence& sequence) {
  expect_all_well(run_threads(sequence.ranks, sequence.settings,
                              [&](Communicator& communicator) { SequenceRunner(communicator, sequence).run(); }));
}

void run_as_processes(const Sequence& sequence) {
  const UniqueId id = new_id();
  expect_all_well(run_processes(sequence.ranks, kLimitSeconds, [&](int rank) {
    Communicator communicator = Communicator::create(id, rank, sequence.ranks, sequence.settings);
    SequenceRunner(communicator, sequence).run();
  }));
}

// Fixed seeds first, then one that is new in every run.
std::vector<uint64_t> seeds(int fixed, int fresh) {
  std::vector<uint64_t> all;
  for (int i = 0; i < fixed; ++i) all.push_back(1000 + static_cast<uint64_t>(i));
  for (int i = 0; i < fresh; ++i) all.push_back(hash(run_seed() + static_cast<uint64_t>(i)));
  return all;
}

int ranks_for(uint64_t seed) { return 1 + static_cast<int>(hash(seed) % 9); }

TEST(Collectives, RandomSequencesOnThreads) {
  for (const uint64_t seed : seeds(5, 11)) {
    run_as_threads(random_sequence(seed, ranks_for(seed), 40, kMostBytes));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Collectives, RandomSequencesOnProcesses) {
  for (const uint64_t seed : seeds(2, 6)) {
    run_as_processes(random_sequence(seed, ranks_for(seed), 40, kMostBytes));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Collectives, ManyRanks) {
  Random random(run_seed());
  run_as_processes(random_sequence(random(), 11, 6, 20'000));
  run_as_threads(random_sequence(random(), 19, 5, 20'000));
  run_as_processes(random_sequence(random(), 32, 4, 20'000));
  run_as_threads(random_sequence(random(), 64, 4, 20'000));
}

// Every collective with every type and every operation that it has, with exact and with random input.
TEST(Collectives, AllTypesAndOperations) {
  Random random(run_seed());
  for (const int ranks : {1, 3}) {
    Sequence sequence;
    sequence.name = join("all types, ", ranks, " ranks");
    sequence.seed = random();
    sequence.ranks = ranks;
    sequence.settings.scratch_bytes = 16 * 1024;
    for (int c = 0; c < kCollectiveCount; ++c) {
      for (int type = 0; type < kDataTypeCount; ++type) {
        for (const ReduceOp op : reductions_of(static_cast<DataType>(type))) {
          Step step;
          step.call.collective = static_cast<Collective>(c);
          if (step.call.collective != Collective::kBarrier) {
            step.call.type = static_cast<DataType>(type);
            step.call.count = between(random, 1, 200);
          }
          if (!reduces(step.call.collective) && op != ReduceOp::kSum) continue;
          step.call.op = op;
          if (has_root(step.call.collective))
            step.call.root = static_cast<int>(random() % static_cast<uint64_t>(ranks));
          step.layout = random_layout(random);
          for (const bool exact : {true, false}) {
            step.exact = exact;
            sequence.steps.push_back(step);
          }
        }
      }
    }
    run_as_threads(sequence);
  }
}

// Five calls of one collective, with several slices.
void add_calls(Sequence& sequence, Collective collective, Random& random) {
  RandomCounts counts(random, sequence.settings, sequence.ranks, kMostBytes);
  for (int i = 0; i < 5; ++i) {
    Step step;
    do step.call = random_call(random, sequence.ranks);
    while (step.call.collective != collective);
    if (collective != Collective::kBarrier) step.call.count = counts.draw(step.call);
    step.layout = random_layout(random);
    step.exact = i % 2 == 0;
    sequence.steps.push_back(step);
  }
}

// The algorithms that a machine's links decide on, pinned, on GPUs that links join: here ranks of a host stand for
// them.
TEST(Collectives, AlgorithmsOnLinks) {
  Random random(run_seed());
  std::set<std::string> used;
  for (const Algorithm& algorithm : algorithms()) {
    if (!needs_links(algorithm)) continue;
    for (const Collective collective : algorithm.collectives) {
      for (const std::string parameters : {"", "(parts=3)", "(count=2)"}) {
        if (parameters == "(count=2)" && !algorithm.uses.count) continue;
        for (const int ranks : {2, 4, 6}) {
          Sequence sequence;
          sequence.ranks = ranks;
          sequence.seed = random();
          sequence.settings.scratch_bytes = 256 * 1024;
          sequence.settings.topology = "dgx1-v100";
          sequence.settings.algorithm = join(name(collective), ":", algorithm.name, parameters);
          if (!fits(collective, ranks, sequence.settings)) continue;
          sequence.name = join(sequence.settings.algorithm, ", ", ranks, " ranks");
          add_calls(sequence, collective, random);
          run_as_threads(sequence);
          if (testing::Test::HasFailure()) return;
          used.insert(join(algorithm.name, parameters, ranks));
        }
      }
    }
  }
  EXPECT_GT(used.size(), 20u);  // of 33: the other plans need more scratch memory than there is
}

// Every other algorithm that serves a collective, pinned, with several slices.
TEST(Collectives, AllAlgorithms) {
  Random random(run_seed());
  std::set<std::string> used;
  for (const Algorithm& algorithm : algorithms()) {
    if (needs_links(algorithm)) used.emplace(algorithm.name);  // AlgorithmsOnLinks
  }
  for (int c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const int ranks : {1, 2, 3, 4, 6}) {
      for (const std::string& form : texts_for(collective, ranks)) {
        used.insert(parse_spec(form, collective).name);
        Sequence sequence;
        sequence.ranks = ranks;
        sequence.seed = random();
        sequence.settings.scratch_bytes = 32 * 1024;
        constexpr int kTriesInSoLittleMemory = 20;
        for (int tries = 1;; ++tries) {
          sequence.settings.algorithm =
              join(name(collective), ":", with_random_parameters(random, form, collective, ranks));
          if (fits(collective, ranks, sequence.settings)) break;
          if (tries % kTriesInSoLittleMemory == 0) sequence.settings.scratch_bytes *= 2;
        }
        sequence.name = join(sequence.settings.algorithm, ", ", ranks, " ranks");
        add_calls(sequence, collective, random);
        run_as_threads(sequence);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_EQ(used.size(), algorithms().size());
}

// AWA-01, AWA-11..16: every algorithm that a level of a broadcast can have above every other, between real ranks.
TEST(Collectives, BroadcastsByEveryPairOfLevels) {
  Random random(run_seed());
  for (const LevelAlgorithm& inner : level_algorithms()) {
    for (const LevelAlgorithm& outer : level_algorithms()) {
      if (!serves(inner, Collective::kBroadcast) || !serves(outer, Collective::kBroadcast)) continue;
      Sequence sequence;
      sequence.ranks = 6;
      sequence.seed = random();
      sequence.settings.scratch_bytes = 256 * 1024;
      const bool inner_pairs = one_in(random, 2);
      sequence.settings.algorithm = join("broadcast:hierarchical(", inner_pairs ? "2: " : "3: ", inner.name, ", ",
                                         inner_pairs ? "3: " : "2: ", outer.name, ", parts=", 1 + random() % 4, ")");
      sequence.name = sequence.settings.algorithm;
      ASSERT_TRUE(fits(Collective::kBroadcast, sequence.ranks, sequence.settings)) << sequence.name;
      add_calls(sequence, Collective::kBroadcast, random);
      run_as_threads(sequence);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Messages that are written past the caches.
TEST(Collectives, LargeMessages) {
  const size_t count = (size_t{16} << 20) / 4 + 13;
  Sequence sequence;
  sequence.name = "large messages";
  sequence.ranks = 2;
  sequence.steps.push_back({{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, count}, {false, 0, 4}});
  run_as_threads(sequence);
  sequence.steps[0] = {{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kMax, 0, count}, {true, 3, 0}};
  sequence.steps.push_back({{Collective::kAllGather, DataType::kFloat64, ReduceOp::kSum, 0, count / 4}, {false, 0, 1}});
  sequence.steps.push_back({{Collective::kBroadcast, DataType::kFloat32, ReduceOp::kSum, 1, count}, {false, 0, 2}});
  run_as_processes(sequence);
}

// Calls that do not synchronise let a rank run ahead. Signals and scratch of an epoch must not be used too early.
TEST(Collectives, RanksThatRunAhead) {
  Random random(run_seed());
  for (const int ranks : {2, 3, 5}) {
    for (const char* algorithms : {"", "broadcast:binomial,reduce:binomial", "broadcast:chain(3),reduce:binomial(3)"}) {
      Sequence sequence;
      sequence.ranks = ranks;
      sequence.seed = random();
      sequence.name = join("running ahead, ", ranks, " ranks, seed ", sequence.seed);
      sequence.settings.scratch_bytes = 16 * 1024;
      sequence.settings.algorithm = algorithms;
      sequence.settings.timeout_seconds = 20;
      for (int i = 0; i < 150; ++i) {
        Step step;
        step.call.collective = one_in(random, 15)  ? Collective::kAllReduce
                               : one_in(random, 2) ? Collective::kBroadcast
                                                   : Collective::kReduce;
        step.call.type = DataType::kInt32;
        // The same root for a while, then another one.
        step.call.root = i / 10 % ranks;
        step.call.count = one_in(random, 5) ? between(random, 1, 9000) : 33;
        step.variant = i;
        sequence.steps.push_back(step);
      }
      run_as_threads(sequence);
    }
  }
}

// A rank may leave while others still read what it left for them.
TEST(Collectives, ARankLeavesAtOnceAfterItsLastCall) {
  for (int round = 0; round < 20; ++round) {
    Sequence sequence;
    sequence.name = "leaving at once";
    sequence.ranks = 4;
    sequence.seed = static_cast<uint64_t>(round);
    sequence.settings.scratch_bytes = 16 * 1024;
    sequence.steps.push_back({{Collective::kBroadcast, DataType::kInt32, ReduceOp::kSum, round % 4, 1500}, {}, round});
    sequence.steps.push_back({{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 400}, {}, round});
    sequence.steps.push_back({{Collective::kBroadcast, DataType::kInt32, ReduceOp::kSum, round % 4, 1500}, {}, round});
    run_as_threads(sequence);
    run_as_processes(sequence);
  }
}

TEST(Collectives, TwoCommunicatorsAtOnceInOneProcess) {
  const Sequence left = random_sequence(7001, 3, 30, 20'000), right = random_sequence(7002, 3, 30, 20'000);
  const UniqueId left_id = new_id(), right_id = new_id();
  expect_all_well(run_processes(3, kLimitSeconds, [&](int rank) {
    Communicator a = Communicator::create(left_id, rank, 3, left.settings);
    Communicator b = Communicator::create(right_id, 2 - rank, 3, right.settings);
    SequenceRunner(a, left).run();
    SequenceRunner(b, right).run();
    SequenceRunner(a, left).run();
  }));
}

TEST(Collectives, ACommunicatorMoves) {
  expect_all_well(run_threads(2, Settings{}, [](Communicator& communicator) {
    const int32_t input = 1 + communicator.rank();
    int32_t output = 0;
    communicator.all_reduce(&input, &output, 1, DataType::kInt32, ReduceOp::kSum);
    require(output == 3, "before");
    Communicator moved = std::move(communicator);
    moved.all_reduce(&input, &output, 1, DataType::kInt32, ReduceOp::kProduct);
    require(output == 2, "after");
    communicator = std::move(moved);
    communicator.all_reduce(&input, &output, 1, DataType::kInt32, ReduceOp::kMax);
    require(output == 2, "and back");
  }));
}

TEST(Collectives, PlansAndReasonsCanBeAskedFor) {
  Settings settings;
  settings.algorithm = "all_reduce:ring";
  Communicator communicator = std::move(Communicator::in_process(2, settings)[0]);
  const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 100};
  EXPECT_EQ(communicator.plan_for(call).plan().algorithm, "ring");
  EXPECT_NE(communicator.reason_for(call).find("ring"), std::string::npos);
  EXPECT_GE(communicator.shared_bytes(), 2 * settings.scratch_bytes);
}

}  // namespace
}  // namespace plait::test
