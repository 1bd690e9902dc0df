// Broadcast and reduce along trees: binomial (AWA-13, AWA-11) and chain (UEN-X1).
#include "algorithms/steps/tree.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments tree_of(int ranks, Collective collective, int root = 0) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.root = root;
  return arguments;
}

TEST(Tree, BinomialOfEight) {
  Tree tree(0, 8);
  std::vector<int> ranks(8);
  std::iota(ranks.begin(), ranks.end(), 0);
  add_knomial(tree, ranks);
  EXPECT_EQ(tree.parent, (std::vector{-1, 0, 0, 2, 0, 4, 4, 6}));
  EXPECT_EQ(tree.children[0], (std::vector{4, 2, 1}));  // the largest subtree first
  EXPECT_EQ(tree.children[4], (std::vector{6, 5}));
  EXPECT_EQ(tree.order.size(), 8U);
}

TEST(Tree, BinomialOfAnySize) {
  for (int ranks = 1; ranks <= 40; ++ranks) {
    std::vector<int> names(ranks);
    std::iota(names.begin(), names.end(), 0);
    Tree tree(0, ranks);
    add_knomial(tree, names);
    std::vector<bool> reached(ranks, false);
    reached[0] = true;
    for (size_t i = 1; i < tree.order.size(); ++i) {
      EXPECT_TRUE(reached[tree.parent[tree.order[i]]]);
      EXPECT_FALSE(reached[tree.order[i]]);
      reached[tree.order[i]] = true;
    }
    EXPECT_EQ(std::count(reached.begin(), reached.end(), true), ranks);
  }
}

TEST(Tree, KnomialOfNine) {
  Tree tree(0, 9);
  std::vector<int> ranks(9);
  std::iota(ranks.begin(), ranks.end(), 0);
  add_knomial(tree, ranks, 3);
  EXPECT_EQ(tree.parent, (std::vector{-1, 0, 0, 0, 3, 3, 0, 6, 6}));
  EXPECT_EQ(tree.children[0], (std::vector{3, 6, 1, 2}));  // the largest subtrees first
}

// ceil(log_k p) rounds, in each of which a rank gives the message to k-1 others (AWA-14).
TEST(Knomial, RoundsOfEveryRadix) {
  for (int radix = 2; radix <= 8; ++radix) {
    for (int ranks = 1; ranks <= 33; ++ranks) {
      int rounds = 0;
      for (int reached = 1; reached < ranks; reached *= radix) ++rounds;
      for (const Collective collective :
           {Collective::kBroadcast, Collective::kReduce, Collective::kGather, Collective::kScatter}) {
        AlgorithmArguments arguments = tree_of(ranks, collective, ranks / 2);
        arguments.radix = radix;
        const VerifiedPlan plan = test::verified("binomial", arguments);
        EXPECT_LE(plan.report().steps, rounds);
        if (collective != Collective::kBroadcast) continue;
        size_t children = 0;
        for (const Traffic& it : plan.report().traffic) children += it.from.rank == ranks / 2 ? it.chunks : 0;
        EXPECT_LE(children, static_cast<size_t>(rounds) * (radix - 1));
        if (ranks == radix * radix) {
          EXPECT_EQ(children, 2U * (radix - 1));
          EXPECT_EQ(plan.report().steps, 2);
        }
      }
    }
  }
}

TEST(Knomial, RefusesARadixBeyondItsRange) {
  for (const int radix : {1, 9, -2}) {
    AlgorithmArguments arguments = tree_of(8, Collective::kReduce);
    arguments.radix = radix;
    test::expect_invalid([&] { make_plan("binomial", arguments); }, "is not from 2 to 8");
  }
}

TEST(Binomial, EveryRankReceivesOnceFromAnyRoot) {
  for (const Access access : {Access::kStaged, Access::kZeroCopy}) {
    for (int root = 0; root < 11; ++root) {
      AlgorithmArguments arguments = tree_of(11, Collective::kBroadcast, root);
      arguments.access = access;
      const VerifiedPlan plan =
          test::verified(access == Access::kZeroCopy ? "binomial(store)" : "binomial(load)", arguments);
      std::vector<int64_t> received(11, 0);
      for (const Traffic& traffic : plan.report().traffic) received[traffic.to.rank] += traffic.chunks;
      for (int rank = 0; rank < 11; ++rank) EXPECT_EQ(received[rank], rank == root ? 0 : 1);
    }
  }
}

// AWA-11: every node is entered once, even if the root is not the first rank of its node.
TEST(Binomial, EntersEveryNodeOnce) {
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    AlgorithmArguments arguments = tree_of(16, collective, 6);
    arguments.node_of = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
    const VerifiedPlan plan = test::verified("binomial", arguments);
    EXPECT_EQ(test::count(plan.plan(), OpKind::kSend), 3);
    EXPECT_EQ(plan.report().steps, 2 + 2);
    EXPECT_EQ(test::operations(plan.plan(), 6, collective == Collective::kBroadcast ? OpKind::kSend : OpKind::kReceive)
                  .size(),
              2U);
  }
}

TEST(Binomial, ReduceCombinesAllChildrenInOneReduce) {
  const VerifiedPlan plan = test::verified("binomial", tree_of(8, Collective::kReduce));
  const auto reduces = test::operations(plan.plan(), 0, OpKind::kReduce);
  ASSERT_EQ(reduces.size(), 1U);
  EXPECT_EQ(reduces[0].sources.size(), 4U);
  for (int rank = 1; rank < 8; ++rank) EXPECT_EQ(plan.plan().ranks[rank].scratch_slots, 1);
  EXPECT_EQ(plan.plan().ranks[0].scratch_slots, 0);
}

TEST(Binomial, PeerReadsLeavesInPlace) {
  AlgorithmArguments arguments = tree_of(8, Collective::kReduce);
  arguments.access = Access::kZeroCopy;
  const VerifiedPlan plan = test::verified("binomial", arguments);
  for (int rank = 0; rank < 8; ++rank) {
    const bool sums_up = rank == 2 || rank == 4 || rank == 6;
    EXPECT_EQ(plan.plan().ranks[rank].scratch_slots, sums_up ? 1 : 0);
  }
}

// A rank passes a part on before it receives the next.
TEST(Chain, PartsFollowOneAnother) {
  AlgorithmArguments arguments = tree_of(4, Collective::kBroadcast, 2);
  arguments.parts = 5;
  const VerifiedPlan plan = test::verified("chain", arguments);
  EXPECT_EQ(plan.report().steps, 3);
  const auto& operations = plan.plan().ranks[3].queues[0].operations;
  ASSERT_EQ(operations.size(), 15U);
  for (int part = 0; part < 5; ++part) {
    EXPECT_EQ(operations[3 * part].kind, OpKind::kWait);
    EXPECT_EQ(operations[3 * part].peer_rank, 2);
    EXPECT_EQ(operations[3 * part + 1].chunk, part);
    EXPECT_EQ(operations[3 * part + 2].kind, OpKind::kSignal);
    EXPECT_EQ(operations[3 * part + 2].peer_rank, 0);
  }
  EXPECT_EQ(plan.plan().ranks[3].scratch_slots, 5);
  EXPECT_EQ(plan.plan().ranks[1].scratch_slots, 0);  // the end of the chain
}

TEST(Chain, PeerStoresStraightToOutputs) {
  AlgorithmArguments arguments = tree_of(5, Collective::kBroadcast);
  arguments.access = Access::kZeroCopy;
  test::expect_invalid([&] { make_plan("chain(load)", arguments); }, "use chain(store, zero_copy)");
  test::expect_invalid([&] { make_plan("binomial(load)", arguments); }, "a zero-copy broadcast goes by store");
  const VerifiedPlan plan = test::verified("chain(store)", arguments);
  EXPECT_EQ(plan.report().steps, 5);
  for (const RankPlan& rank : plan.plan().ranks) EXPECT_EQ(rank.scratch_slots, 0);
  EXPECT_EQ(test::count(plan.plan(), OpKind::kReduce), 5);
}

}  // namespace
}  // namespace plait
