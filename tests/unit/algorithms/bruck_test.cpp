// Bruck's concatenation and its reverse.
#include <gtest/gtest.h>

#include <map>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments bruck_of(int ranks, Collective collective, Direction direction = Direction::kLoad) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.direction = direction;
  return arguments;
}

TEST(Bruck, FewestStepsAndLeastBytesOfEveryRank) {
  for (int ranks = 2; ranks <= 40; ++ranks) {
    for (const Direction direction : {Direction::kLoad, Direction::kStore}) {
      for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
        const VerifiedPlan plan = test::verified("bruck", bruck_of(ranks, collective, direction));
        const int phases = collective == Collective::kAllReduce ? 2 : 1;
        int steps = 0;
        while (1 << steps < ranks) ++steps;
        EXPECT_EQ(plan.report().steps, phases * steps);
        std::map<int, int64_t> taken, given;
        for (const Traffic& traffic : plan.report().traffic) {
          if (traffic.from.rank == traffic.to.rank) continue;
          taken[traffic.to.rank] += traffic.chunks;
          given[traffic.from.rank] += traffic.chunks;
        }
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(taken[rank], phases * (ranks - 1));
          EXPECT_EQ(given[rank], phases * (ranks - 1));
        }
      }
    }
  }
}

// Whole ranges move; otherwise there would be p^2 operations.
TEST(Bruck, OperationsStayFew) {
  for (const int ranks : {64, 100, 255}) {
    const Plan plan = make_plan("bruck", bruck_of(ranks, Collective::kAllGather));
    EXPECT_LE(test::count(plan, OpKind::kReduce), ranks * (1 + 8) + ranks);  // a range that wraps around is two
  }
}

// By load, only others read a rank's scratch, which has no room for the last blocks. By store, no rank reads another's
// scratch.
TEST(Bruck, ScratchAndReach) {
  const Plan by_load = make_plan("bruck", bruck_of(11, Collective::kAllGather));
  for (const RankPlan& rank : by_load.ranks) EXPECT_EQ(rank.scratch_slots, 8);
  const Plan by_store = make_plan("bruck", bruck_of(11, Collective::kAllReduce, Direction::kStore));
  for (int rank = 0; rank < 11; ++rank) {
    EXPECT_EQ(by_store.ranks[rank].scratch_slots, 10 + 11);
    for (const Operation& reduce : test::operations(by_store, rank, OpKind::kReduce)) {
      for (const Place& source : reduce.sources) EXPECT_EQ(source.rank, rank);
    }
  }
}

}  // namespace
}  // namespace plait
