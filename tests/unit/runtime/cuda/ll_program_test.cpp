// Programs of the LL and LL128 kernels: their steps and places.
#include "runtime/cuda/lowering/ll_program.hpp"

#include <gtest/gtest.h>

#include <set>
#include <span>
#include <vector>

#include "runtime/cuda/rank/cuda_rank.hpp"
#include "support/kernel_plans.hpp"

namespace plait {
namespace {

std::byte* at(uint64_t address) { return reinterpret_cast<std::byte*>(address); }

LlProgram make(const std::string& algorithm, const Call& call, int ranks, int rank, const LaunchShape& shape) {
  const VerifiedPlan plan = test::plan_of(algorithm, call.collective, ranks);
  const BoundPlan bound = bind(plan, call, rank, CudaRank::limits(shape, plan.plan()));
  std::vector<std::byte*> blocks;
  for (int r = 0; r < ranks; ++r) blocks.push_back(at(uint64_t{1 + static_cast<unsigned>(r)} << 32));
  return make_ll_program(make_queue_program(bound, call, rank, shape.protocol), shape.protocol, call.type, blocks);
}

std::span<const LlPlace> places_of(const LlProgram& program, size_t step) {
  return std::span(program.places).subspan(step << program.group_shift, size_t{1} << program.group_shift);
}

// The rank that has the memory at an LL address.
uint64_t rank_of(uint64_t address) { return (without_flag(address) >> 32) - 1; }

Call of(Collective collective, size_t count) { return {collective, DataType::kFloat32, ReduceOp::kAverage, 0, count}; }

TEST(LlProgram, OneShotIsTwoSteps) {
  const LlProgram program = make("one_shot(store)", of(Collective::kAllReduce, 100), 3, 1, {Protocol::kLl, 1, 64});
  ASSERT_EQ(program.last.count, 2);
  const LlStep& push = program.steps[program.last.first];
  EXPECT_EQ(push.words, 50);
  EXPECT_EQ(push.last_elements, 2);
  EXPECT_TRUE(push.last_word_is_full);
  EXPECT_EQ(push.sources, 2);  // the same source twice
  EXPECT_EQ(push.destinations, 2);
  EXPECT_TRUE(push.copies);
  EXPECT_EQ(push.divisor, 0);
  // It stores to LL memory of ranks 2 and 0; the source is in a user buffer.
  ASSERT_EQ(program.group_shift, 2);
  const auto pushed = places_of(program, 0);
  EXPECT_EQ(rank_of(pushed[0].destination), 2u);
  EXPECT_EQ(rank_of(pushed[1].destination), 0u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(is_flagged(pushed[i].destination));
    EXPECT_GE(pushed[i].destination & 0xffffffff, BlockLayout::ll_at(0, 0));
  }
  for (int i = 2; i < 4; ++i) {
    EXPECT_EQ(pushed[i].source, 0u);
    EXPECT_EQ(pushed[i].destination, 0u);
  }
  const LlStep& reduce = program.steps[program.last.first + 1];
  EXPECT_EQ(reduce.sources, 3);
  EXPECT_EQ(reduce.destinations, 1);
  EXPECT_EQ(reduce.divisor, 3);
  EXPECT_FALSE(reduce.copies);
  // It reduces its own input and what ranks 2 and 0 store here.
  const auto reduced = places_of(program, 1);
  std::set<int> writers;
  for (const LlPlace& place : reduced) {
    if (is_flagged(place.source)) writers.insert(writer_at(place.source));
  }
  EXPECT_EQ(writers, (std::set<int>{0, 2}));
  EXPECT_EQ(program.steps.size(), 2u);
  EXPECT_EQ(program.places.size(), 8u);
  // Places in user buffers: the input for each copy and for the reduce, and the output.
  ASSERT_EQ(program.user_places.size(), 4u);
  for (const LlProgram::UserPlace& place : program.user_places) EXPECT_EQ(place.output, place.is_destination);
  EXPECT_EQ(program.user_places[3].place, 4);
  EXPECT_TRUE(program.user_places[3].is_destination);
  EXPECT_TRUE(program.words_are_aligned);
}

TEST(LlProgram, CopiesAreBatched) {
  const LlProgram program = make("flat(store)", of(Collective::kReduceScatter, 64), 4, 0, {Protocol::kLl, 1, 64});
  const LlStep& scatter = program.steps[program.last.first];
  EXPECT_TRUE(scatter.copies);
  EXPECT_EQ(scatter.sources, 3);
  EXPECT_EQ(scatter.destinations, 3);
  for (uint16_t i = 0; i < 3; ++i) {
    EXPECT_EQ(program.user_places[i].place, i);
    EXPECT_FALSE(program.user_places[i].is_destination);
    EXPECT_FALSE(program.user_places[i].output);
    EXPECT_TRUE(is_flagged(places_of(program, program.last.first)[i].destination));
  }
}

// With LL128, a group of threads stores one word to several places; with LL, each thread has one place.
TEST(LlProgram, Ll128LoadsASourceOnceForAllDestinations) {
  const LlProgram program = make("one_shot(store)", of(Collective::kAllReduce, 100), 3, 1, {Protocol::kLl128, 1, 64});
  EXPECT_EQ(program.steps[0].sources, 1);
  EXPECT_EQ(program.steps[0].destinations, 2);
  EXPECT_FALSE(program.steps[0].copies);
}

TEST(LlProgram, TheLastWordMayHoldFewerElements) {
  const LlProgram program = make("flat(store)", of(Collective::kReduceScatter, 63), 4, 0, {Protocol::kLl, 1, 64});
  EXPECT_EQ(program.steps[0].words, 32);
  EXPECT_EQ(program.steps[0].last_elements, 1);
  EXPECT_FALSE(program.steps[0].last_word_is_full);
}

// A step reads all sources before it writes destinations. So it must not wait for data of others while its own data has
// yet to go out.
TEST(LlProgram, NoStepWaitsForItsOwnStores) {
  for (const auto collective :
       {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast, Collective::kGather, Collective::kScatter,
        Collective::kAllToAll, Collective::kReduceScatter}) {
    for (int rank = 0; rank < 4; ++rank) {
      const LlProgram program = make("flat(store)", of(collective, 64), 4, rank, {Protocol::kLl, 1, 64});
      for (size_t step = 0; step < program.steps.size(); ++step) {
        std::set<uint64_t> awaited;
        bool reads_own = false, writes = false;
        for (const LlPlace& place : places_of(program, step)) {
          if (is_flagged(place.source)) awaited.insert(place.source);
          writes |= is_flagged(place.destination);
        }
        for (const LlProgram::UserPlace& place : program.user_places) {
          reads_own |= !place.is_destination && size_t{place.place} >> program.group_shift == step;
        }
        // It may forward one word to several places, but nothing else.
        const bool forwards = awaited.size() == 1 && !reads_own;
        EXPECT_FALSE(program.steps[step].copies && !awaited.empty() && writes && !forwards)
            << name(collective) << ", rank " << rank << ", step " << step;
      }
    }
  }
}

TEST(LlProgram, OddBlocksAreNotWordAligned) {
  const LaunchShape shape{Protocol::kLl, 1, 64};
  EXPECT_TRUE(make("flat(store)", of(Collective::kReduceScatter, 64), 4, 0, shape).words_are_aligned);
  EXPECT_FALSE(make("flat(store)", of(Collective::kReduceScatter, 63), 4, 0, shape).words_are_aligned);
}

TEST(LlProgram, SlicesOfTwoSizesHaveTwoPrograms) {
  const LlProgram even = make("flat(store)", of(Collective::kAllReduce, 4096), 2, 0, {Protocol::kLl128, 4, 64});
  EXPECT_EQ(even.full.first, even.last.first);
  const LlProgram odd = make("flat(store)", of(Collective::kAllReduce, 4097), 2, 0, {Protocol::kLl128, 4, 64});
  EXPECT_NE(odd.full.first, odd.last.first);
  EXPECT_GT(odd.steps[odd.full.first].words, 0u);
}

}  // namespace
}  // namespace plait
