// The flat ring (UEN-06, NVG-28) and its halves.
#include <gtest/gtest.h>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments ring_of(int ranks, Collective collective = Collective::kAllReduce) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  return arguments;
}

TEST(Ring, LoadsOnlyLinksBetweenNeighboursAndAllAlike) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const VerifiedPlan plan = test::verified("ring", ring_of(ranks));
    EXPECT_EQ(plan.plan().chunk_count(), ranks);
    for (const Traffic& traffic : plan.report().traffic) {
      EXPECT_EQ(traffic.to.rank, (traffic.from.rank + 1) % ranks);
      EXPECT_EQ(traffic.chunks, 2 * (ranks - 1));  // 2 (p-1)/p M
    }
    EXPECT_EQ(plan.report().traffic.size(), static_cast<size_t>(ranks));
    EXPECT_TRUE(plan.report().synchronizes);
  }
}

TEST(Ring, ReadsWritesAndSlotsAreAsDocumented) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    AlgorithmArguments arguments = ring_of(ranks);
    arguments.parts = 2;
    const VerifiedPlan staged = test::verified("ring", arguments);
    arguments.access = Access::kZeroCopy;
    const VerifiedPlan peer = test::verified("ring", arguments);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(staged.plan().ranks[rank].scratch_slots, 2 * ranks);
      EXPECT_EQ(peer.plan().ranks[rank].scratch_slots, 2 * (ranks - 1));
      EXPECT_EQ(staged.report().chunks_read[rank], 2 * (3 * ranks - 2));
      EXPECT_EQ(staged.report().chunks_written[rank], 2 * (3 * ranks - 2));
      EXPECT_EQ(peer.report().chunks_read[rank], 2 * (3 * ranks - 3));
      EXPECT_EQ(peer.report().chunks_written[rank], 2 * (2 * ranks - 1));
    }
  }
}

// Rank x completes chunk x, so that the halves of the algorithm are the other two collectives.
TEST(Ring, RankCompletesItsOwnChunk) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
    const VerifiedPlan plan = test::verified("ring", ring_of(5, collective));
    for (int rank = 0; rank < 5; ++rank) {
      for (const Operation& reduce : test::operations(plan.plan(), rank, OpKind::kReduce)) {
        const auto& to = reduce.destinations;
        if (reduce.sources.size() > 1 && std::find(to.begin(), to.end(), Place{rank, Buffer::kOutput, 0}) != to.end()) {
          EXPECT_EQ(reduce.chunk, rank);
        }
      }
    }
  }
}

TEST(Ring, AcrossNodesOnlyNeighboursAtTheEdgeSendMessages) {
  AlgorithmArguments arguments = ring_of(6);
  arguments.node_of = {0, 0, 0, 1, 1, 1};
  const VerifiedPlan plan = test::verified("ring", arguments);
  for (int rank = 0; rank < 6; ++rank) {
    const bool edge = rank == 2 || rank == 5;
    EXPECT_EQ(test::operations(plan.plan(), rank, OpKind::kSend).size(), edge ? 10U : 0U);
    EXPECT_EQ(plan.plan().ranks[rank].queues.size(), edge || rank == 0 || rank == 3 ? 2U : 1U);
    // The first rank of a node lands finished chunks in its output; the last stages p - 2 pieces that leave.
    EXPECT_EQ(plan.plan().ranks[rank].scratch_slots, rank % 3 == 0 ? 5 : edge ? 6 + 4 : 6);
  }
}

TEST(Ring, PartsOfAStepFollowOneAnother) {
  AlgorithmArguments arguments = ring_of(3);
  arguments.parts = 4;
  const VerifiedPlan plan = test::verified("ring", arguments);
  EXPECT_EQ(plan.report().steps, 4);
  EXPECT_EQ(plan.plan().chunk_count(), 12);
  // Between two waits of a queue there is exactly one part, so its send overlaps the wait for the next.
  int reduces_since_wait = 0, most = 0;
  for (const Operation& operation : plan.plan().ranks[0].queues[0].operations) {
    if (operation.kind == OpKind::kWait) reduces_since_wait = 0;
    if (operation.kind == OpKind::kReduce) most = std::max(most, ++reduces_since_wait);
  }
  EXPECT_EQ(most, 4);  // before the first wait: all parts of step 0
}

}  // namespace
}  // namespace plait
