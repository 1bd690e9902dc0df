// Recursive doubling (NVG-11).
#include <gtest/gtest.h>

#include <bit>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments doubling_of(int ranks, Collective collective = Collective::kAllReduce) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  return arguments;
}

TEST(RecursiveDoubling, PartnersAtDoubledDistances) {
  const VerifiedPlan plan = test::verified("recursive_doubling", doubling_of(8));
  for (int rank = 0; rank < 8; ++rank) {
    const auto waits = test::operations(plan.plan(), rank, OpKind::kWait);
    ASSERT_EQ(waits.size(), 3U);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(waits[k].peer_rank, rank ^ (1 << k));
    EXPECT_EQ(plan.plan().ranks[rank].scratch_slots, 3);
    EXPECT_EQ(plan.report().chunks_read[rank], 1 + 3 * 2);
  }
}

// Equal bits: the lower ranks' part comes first on both sides of every exchange.
TEST(RecursiveDoubling, LowerPartFirst) {
  const Plan plan = make_plan("recursive_doubling", doubling_of(8));
  for (int rank = 0; rank < 8; ++rank) {
    for (const Operation& reduce : test::operations(plan, rank, OpKind::kReduce)) {
      if (reduce.sources.size() == 2) {
        EXPECT_LT(reduce.sources[0].rank, reduce.sources[1].rank);
      }
    }
  }
}

TEST(RecursiveDoubling, RemainderFoldsInAndOut) {
  for (int ranks = 3; ranks <= 33; ++ranks) {
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
    const int extras = ranks - core;
    const int distances = std::bit_width(static_cast<unsigned>(core)) - 1;
    for (const Collective collective : {Collective::kAllReduce, Collective::kBarrier}) {
      const VerifiedPlan plan = test::verified("recursive_doubling", doubling_of(ranks, collective));
      const int more = collective == Collective::kBarrier ? (extras > 0 ? 1 : 0)
                                                          : (extras > 0 ? 1 : 0) + (2 * extras > core ? 1 : 0);
      EXPECT_EQ(plan.report().steps, distances + more) << ranks;
      EXPECT_TRUE(plan.report().synchronizes);
    }
    const Plan plan = make_plan("recursive_doubling", doubling_of(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(plan.ranks[rank].scratch_slots, rank >= core ? 1 : distances + (rank < extras ? 1 : 0));
    }
  }
}

TEST(RecursiveDoubling, MessagesOnlyBetweenNodes) {
  AlgorithmArguments arguments = doubling_of(8);
  arguments.node_of = {0, 0, 0, 0, 1, 1, 1, 1};
  const VerifiedPlan plan = test::verified("recursive_doubling", arguments);
  EXPECT_EQ(plan.report().steps, 3);
  EXPECT_EQ(test::count(plan.plan(), OpKind::kSend), 8);  // distance 4 only
}

}  // namespace
}  // namespace plait
