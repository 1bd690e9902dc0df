// Launches of copies between two barriers: which copies they have, and how many CTAs.
#include <gtest/gtest.h>

#include <vector>

#include "algorithms/algorithm.hpp"
#include "runtime/cuda/zero_copy/barrier_copy_kernel.hpp"
#include "tuner/choice.hpp"

namespace plait {
namespace {

struct Made {
  BarrierCopyLaunch launch;
  BarrierCopyGrid grid;
};

// Rank 0's launch. Nobody accesses the buffers.
Made make(Collective collective, int ranks, size_t count, int sm_count, bool in_place = false) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.engine = Engine::kSm;
  arguments.access = Access::kZeroCopy;
  const VerifiedPlan plan = verify(make_plan("flat(load, zero_copy)", arguments));
  const CopyProgram program = make_copy_program(plan, {collective, DataType::kUint8, ReduceOp::kSum, 0, count}, 0);
  auto* const output = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
  std::vector<const std::byte*> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(in_place && rank == 0 ? output : output + (static_cast<uintptr_t>(rank + 1) << 36));
  }
  Made made;
  const std::vector<uint64_t> agreements(program.queues.size(), 1);
  made.grid = prepare_copies(program, agreements, inputs, output, sm_count, made.launch);
  return made;
}

TEST(BarrierCopies, LongMessagesKeepFewSmsBusyAndShortOnesFewer) {
  for (const int ranks : {2, 4, 16}) {
    const Made longer = make(Collective::kAllGather, ranks, size_t{64} << 20, 132);
    EXPECT_EQ(longer.launch.count, static_cast<unsigned>(ranks));
    EXPECT_EQ(longer.launch.queues, static_cast<unsigned>(ranks - 1));
    EXPECT_EQ(longer.grid.rows, static_cast<unsigned>(ranks));
    EXPECT_EQ(longer.grid.ctas, static_cast<unsigned>(kPullSms / ranks));
    const Made shorter = make(Collective::kAllGather, ranks, 100, 132);
    EXPECT_EQ(shorter.grid.ctas, 1u);
    EXPECT_EQ(shorter.grid.rows, static_cast<unsigned>(ranks));
  }
}

// For many ranks that share a GPU: CTAs that others wait for must have room.
TEST(BarrierCopies, UseNoMoreCtasThanThereAreSms) {
  for (const int sm_count : {1, 3, 8, 20}) {
    for (const int ranks : {2, 7, 16}) {
      const BarrierCopyGrid grid = make(Collective::kAllToAll, ranks, size_t{1} << 20, sm_count).grid;
      EXPECT_GE(grid.ctas, 1u);
      EXPECT_GE(grid.rows, 1u);
      EXPECT_LE(grid.ctas * grid.rows, static_cast<unsigned>(sm_count)) << ranks << " ranks";
    }
  }
}

TEST(BarrierCopies, ARankThatOnlySendsHasBarriers) {
  const Made made = make(Collective::kBroadcast, 3, 1000, 132, true);
  EXPECT_EQ(made.launch.count, 0u);  // in place, its own message needs no copy
  EXPECT_EQ(made.launch.queues, 2u);
  EXPECT_EQ(made.grid.ctas * made.grid.rows, 1u);
  EXPECT_NE(made.launch.before[0].peer, made.launch.before[1].peer);
  for (const int queue : {0, 1}) EXPECT_EQ(made.launch.before[queue].peer, made.launch.after[queue].peer);
}

TEST(BarrierCopies, ASingleRankInPlaceHasNothingToDo) {
  EXPECT_EQ(make(Collective::kAllGather, 1, 1000, 132, true).grid.ctas, 0u);
  EXPECT_EQ(make(Collective::kAllGather, 1, 1000, 132).grid.ctas, 1u);
}

}  // namespace
}  // namespace plait
