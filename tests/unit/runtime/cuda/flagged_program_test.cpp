// Programs of the kernels whose data carries flags: what their words say.
#include "runtime/cuda/flagged_program.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "runtime/cuda/cuda_rank.hpp"

namespace plait {
namespace {

std::byte* at(uint64_t address) { return reinterpret_cast<std::byte*>(address); }

FlaggedProgram make(const std::string& algorithm, const Call& call, int ranks, int rank, const LaunchShape& shape) {
  AlgorithmArguments arguments;
  arguments.collective = call.collective;
  arguments.ranks = ranks;
  arguments.engine = Engine::kSm;
  const VerifiedPlan plan = verify(make_plan(algorithm, arguments));
  const BoundPlan bound = bind(plan, call, rank, CudaRank::limits(shape, plan.plan()));
  std::vector<std::byte*> blocks;
  for (int r = 0; r < ranks; ++r) blocks.push_back(at(uint64_t{1 + static_cast<unsigned>(r)} << 32));
  return make_flagged_program(make_lane_program(bound, call, rank, shape.protocol), shape.protocol, blocks);
}

FlaggedStep step_at(const FlaggedProgram& program, size_t word) {
  return std::bit_cast<FlaggedStep>(program.words[word]);
}

Call of(Collective collective, size_t count) { return {collective, DataType::kFloat32, ReduceOp::kAverage, 0, count}; }

TEST(FlaggedProgram, OneShotIsTwoSteps) {
  const FlaggedProgram program =
      make("one_shot_push", of(Collective::kAllReduce, 100), 3, 1, {Protocol::kPackets, 1, 64});
  ASSERT_EQ(program.last.count, 2);
  const FlaggedStep push = step_at(program, program.last.first);
  EXPECT_EQ(push.elements, 100u);
  EXPECT_EQ(push.sources, 1);
  EXPECT_EQ(push.destinations, 2);
  EXPECT_FALSE(push.copies);
  EXPECT_EQ(push.divisor, 0);
  // Stored at rank 2 and rank 0, where packets are; the source is the caller's.
  const uint64_t packets = BlockLayout::packets_at(0, 0);
  EXPECT_EQ(program.words[2] & kFlaggedAddress, kFlaggedAddress);
  EXPECT_EQ((program.words[2] & ~kFlaggedAddress) >> 32, 3u);
  EXPECT_EQ((program.words[3] & ~kFlaggedAddress) >> 32, 1u);
  EXPECT_GE(program.words[2] & 0xffffffff, packets);
  const FlaggedStep fold = step_at(program, 4);
  EXPECT_EQ(fold.sources, 3);
  EXPECT_EQ(fold.destinations, 1);
  EXPECT_EQ(fold.divisor, 3);
  EXPECT_EQ(program.words.size(), 9u);
  // The caller's places: the input twice, the output once.
  ASSERT_EQ(program.callers.size(), 3u);
  EXPECT_EQ(program.callers[0].word, 1);
  EXPECT_FALSE(program.callers[0].output);
  EXPECT_EQ(program.callers[2].word, 8);
  EXPECT_TRUE(program.callers[2].output);
  EXPECT_EQ(program.group_shift, 2);
  EXPECT_TRUE(program.has_whole_words);
}

TEST(FlaggedProgram, CopiesAreJoined) {
  const FlaggedProgram program = make("push", of(Collective::kReduceScatter, 64), 4, 0, {Protocol::kPackets, 1, 64});
  const FlaggedStep scatter = step_at(program, program.last.first);
  EXPECT_TRUE(scatter.copies);
  EXPECT_EQ(scatter.sources, 3);
  EXPECT_EQ(scatter.destinations, 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(program.callers[i].word, 1 + i);
    EXPECT_FALSE(program.callers[i].output);
    EXPECT_NE(program.words[4 + i] & kFlaggedAddress, 0u);
  }
}

// Sources are read before destinations are written, so data of others must not be awaited where own data has yet to go.
TEST(FlaggedProgram, NoStepWaitsForWhatItStores) {
  for (const auto collective :
       {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast, Collective::kGather, Collective::kScatter,
        Collective::kAllToAll, Collective::kReduceScatter}) {
    for (int rank = 0; rank < 4; ++rank) {
      const FlaggedProgram program = make("push", of(collective, 64), 4, rank, {Protocol::kPackets, 1, 64});
      size_t word = program.last.first;
      for (int i = 0; i < program.last.count; ++i) {
        const FlaggedStep step = step_at(program, word++);
        bool reads = false, writes = false;
        for (int s = 0; s < step.sources; ++s) reads |= (program.words[word++] & kFlaggedAddress) != 0;
        for (int d = 0; d < step.destinations; ++d) writes |= (program.words[word++] & kFlaggedAddress) != 0;
        EXPECT_FALSE(step.copies && reads && writes) << name(collective) << ", rank " << rank << ", step " << i;
      }
    }
  }
}

TEST(FlaggedProgram, OddBlocksAreNoWholeWords) {
  const LaunchShape shape{Protocol::kPackets, 1, 64};
  EXPECT_TRUE(make("push", of(Collective::kReduceScatter, 64), 4, 0, shape).has_whole_words);
  EXPECT_FALSE(make("push", of(Collective::kReduceScatter, 63), 4, 0, shape).has_whole_words);
}

TEST(FlaggedProgram, SlicesOfTwoLengthsAreTwoPrograms) {
  const FlaggedProgram even = make("push", of(Collective::kAllReduce, 4096), 2, 0, {Protocol::kLines, 4, 64});
  EXPECT_EQ(even.full.first, even.last.first);
  const FlaggedProgram odd = make("push", of(Collective::kAllReduce, 4097), 2, 0, {Protocol::kLines, 4, 64});
  EXPECT_NE(odd.full.first, odd.last.first);
  EXPECT_GT(step_at(odd, odd.full.first).elements, 0u);
}

}  // namespace
}  // namespace plait
