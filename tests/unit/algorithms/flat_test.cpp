// Flat algorithms (TEM-17, TEM-18, BLK-03) and one_shot.
#include <gtest/gtest.h>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments flat_of(int ranks, Collective collective, Access access) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.root = ranks - 1;
  arguments.access = access;
  return arguments;
}

TEST(Flat, PeerAllReduceIsOneReduceARank) {
  const VerifiedPlan plan = test::verified("flat(store)", flat_of(4, Collective::kAllReduce, Access::kZeroCopy));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(plan.plan().ranks[rank].scratch_slots, 0);
    const auto reduces = test::operations(plan.plan(), rank, OpKind::kReduce);
    ASSERT_EQ(reduces.size(), 1U);
    EXPECT_EQ(reduces[0].chunk, rank);
    ASSERT_EQ(reduces[0].sources.size(), 4U);
    ASSERT_EQ(reduces[0].destinations.size(), 4U);
    for (int i = 0; i < 4; ++i) {  // combined in the order of the ranks, stored from the rank itself on
      EXPECT_EQ(reduces[0].sources[i], (Place{i, Buffer::kInput, 0}));
      EXPECT_EQ(reduces[0].destinations[i], (Place{(rank + i) % 4, Buffer::kOutput, 0}));
    }
  }
}

TEST(Flat, StagedAllReducePublishesInTwoCopiesAndBeginsWithTheNextRank) {
  const VerifiedPlan plan = test::verified("flat", flat_of(5, Collective::kAllReduce, Access::kStaged));
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(plan.plan().ranks[rank].scratch_slots, 5);
    const auto& operations = plan.plan().ranks[rank].queues[0].operations;
    const auto first_signal =
        std::find_if(operations.begin(), operations.end(), [](auto& o) { return o.kind == OpKind::kSignal; });
    EXPECT_LE(first_signal - operations.begin(), 2);
    int published = 0;
    for (auto it = operations.begin(); it != first_signal; ++it) published += it->chunks;
    EXPECT_EQ(published, 4);
    for (int d = 1; d < 5; ++d) EXPECT_EQ((first_signal + d - 1)->peer_rank, (rank + d) % 5);
    const auto waits = test::operations(plan.plan(), rank, OpKind::kWait);
    ASSERT_EQ(waits.size(), 8U);
    for (int d = 1; d < 5; ++d) {
      EXPECT_EQ(waits[d - 1].peer_rank, (rank + d) % 5);
      EXPECT_EQ(waits[d + 3].peer_rank, (rank + d) % 5);
    }
  }
}

// TEM-18: the next part is published before the current one is reduced.
TEST(Flat, PipelinePublishesAhead) {
  AlgorithmArguments arguments = flat_of(3, Collective::kAllReduce, Access::kStaged);
  arguments.parts = 4;
  const VerifiedPlan plan = test::verified("flat", arguments);
  EXPECT_EQ(plan.plan().chunk_count(), 12);
  for (int rank = 0; rank < 3; ++rank) {
    int published = -1, reduced = -1;
    for (const Operation& reduce : test::operations(plan.plan(), rank, OpKind::kReduce)) {
      const int part = reduce.chunk / 3;
      if (reduce.sources.size() == 3) {
        EXPECT_EQ(part, reduced + 1);
        reduced = part;
        EXPECT_GE(published, std::min(part + 1, 3));
      } else if (reduce.sources[0].buffer == Buffer::kInput) {
        published = part;
      }
    }
    EXPECT_EQ(reduced, 3);
  }
}

// BLK-03: on four ranks, every directed link between two ranks carries a third once, except the links into the root.
TEST(Flat, BroadcastUsesAllLinksOnce) {
  for (const Access access : {Access::kStaged, Access::kZeroCopy}) {
    const VerifiedPlan plan = test::verified(access == Access::kZeroCopy ? "flat(store)" : "flat(load)",
                                             flat_of(4, Collective::kBroadcast, access));
    EXPECT_EQ(plan.plan().chunk_count(), 3);
    EXPECT_EQ(plan.report().traffic.size(), 9U);
    for (const Traffic& traffic : plan.report().traffic) {
      EXPECT_NE(traffic.to.rank, 3);
      EXPECT_EQ(traffic.chunks, 1);
    }
  }
}

TEST(Flat, SlotsAreAsDocumented) {
  const auto slots = [](Collective collective, Access access, int rank) {
    const bool stores = access == Access::kZeroCopy && collective != Collective::kReduceScatter;
    return make_plan(stores ? "flat(store)" : "flat(load)", flat_of(6, collective, access)).ranks[rank].scratch_slots;
  };
  const int root = 5;
  EXPECT_EQ(slots(Collective::kReduceScatter, Access::kStaged, 0), 6);
  EXPECT_EQ(slots(Collective::kAllGather, Access::kStaged, 0), 1);
  EXPECT_EQ(slots(Collective::kReduce, Access::kStaged, 0), 6);
  EXPECT_EQ(slots(Collective::kBroadcast, Access::kStaged, root), 5);
  EXPECT_EQ(slots(Collective::kBroadcast, Access::kStaged, 0), 1);
  for (const Collective collective :
       {Collective::kReduceScatter, Collective::kAllGather, Collective::kReduce, Collective::kBroadcast}) {
    for (const int rank : {0, root}) EXPECT_EQ(slots(collective, Access::kZeroCopy, rank), 0);
  }
}

// Combinations that do not exist are refused, with a word on those that do.
TEST(Flat, RefusesWhatItHasNoPlanFor) {
  const auto expect_refused = [](const char* text, Collective collective, const std::string& part) {
    test::expect_invalid([&] { make_plan(text, flat_of(4, collective, Access::kStaged)); }, part);
  };
  for (const Collective collective : {Collective::kGather, Collective::kScatter, Collective::kAllToAll}) {
    expect_refused("flat(load)", collective, "use flat(store)");
    expect_refused("flat(store, zero_copy)", collective, "use flat(load, zero_copy)");
  }
  expect_refused("flat(store, zero_copy)", Collective::kReduceScatter, "use flat(load, zero_copy)");
  expect_refused("flat(load, zero_copy)", Collective::kReduce, "use flat(store, zero_copy)");
  expect_refused("flat(both, zero_copy)", Collective::kReduce, "no zero-copy plan by both");
  expect_refused("flat(load, parts=2)", Collective::kBroadcast, "no parts in a plan by load of broadcast");
  expect_refused("flat(load, zero_copy, parts=2)", Collective::kAllReduce,
                 "no parts in a zero-copy plan of all_reduce");
  expect_refused("flat(store, parts=3)", Collective::kAllReduce, "parts 1, which is one queue a rank, or 2");
  expect_refused("one_shot(store, parts=3)", Collective::kAllReduce, "parts 1, which is one queue a rank, or 2");
  expect_refused("one_shot(load, parts=2)", Collective::kAllReduce, "no parts by load");
}

TEST(Flat, BarrierOnlySignals) {
  const VerifiedPlan plan = test::verified("flat", flat_of(6, Collective::kBarrier, Access::kStaged));
  EXPECT_EQ(test::count(plan.plan(), OpKind::kSignal), 30);
  EXPECT_EQ(test::count(plan.plan(), OpKind::kReduce), 0);
  EXPECT_TRUE(plan.report().synchronizes);
}

TEST(OneShot, OneStepOneSlot) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const VerifiedPlan plan = test::verified("one_shot", flat_of(ranks, Collective::kAllReduce, Access::kStaged));
    EXPECT_EQ(plan.report().steps, 1);
    EXPECT_TRUE(plan.report().synchronizes);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(plan.plan().ranks[rank].scratch_slots, 1);
      EXPECT_EQ(test::operations(plan.plan(), rank, OpKind::kReduce).size(), 2U);
      EXPECT_EQ(plan.report().chunks_read[rank], ranks + 1);
      EXPECT_EQ(plan.report().chunks_written[rank], 2);
    }
  }
}

TEST(OneShot, AloneOnlyCopies) {
  const VerifiedPlan plan = test::verified("one_shot", flat_of(1, Collective::kAllReduce, Access::kStaged));
  EXPECT_EQ(plan.plan().ranks[0].scratch_slots, 0);
  EXPECT_EQ(test::count(plan.plan(), OpKind::kReduce), 1);
}

}  // namespace
}  // namespace plait
