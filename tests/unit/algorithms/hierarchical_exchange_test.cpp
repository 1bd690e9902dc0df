// All-to-all by way of relays, and gather and scatter along trees of several nodes.
#include <gtest/gtest.h>

#include <set>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments on_nodes(int ranks, int of_a_node, Collective collective, int root = 0) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.root = root;
  for (int rank = 0; rank < ranks; ++rank) arguments.node_of.push_back(rank / of_a_node);
  return arguments;
}

TEST(HierarchicalExchange, AMessageFromEveryRankToEveryOtherNode) {
  const VerifiedPlan plan = test::verified("hierarchical_exchange", on_nodes(12, 4, Collective::kAllToAll));
  EXPECT_EQ(test::count(plan.plan(), OpKind::kSend), 12 * 2);
  EXPECT_EQ(plan.report().steps, 2);
  for (int rank = 0; rank < 12; ++rank) {
    for (const Operation& send : test::operations(plan.plan(), rank, OpKind::kSend)) {
      EXPECT_EQ(send.chunks, 4);                            // all blocks for that node
      EXPECT_EQ(send.peer_rank % 4, rank % 4);              // to the rank with the same position there
      EXPECT_EQ(send.sources[0].buffer, Buffer::kScratch);  // in place, the input is overwritten
    }
    EXPECT_EQ(plan.plan().ranks[rank].scratch_slots, 12 + 8);
  }
}

// If one node has more ranks than another, its messages are dealt out.
TEST(HierarchicalExchange, NodesOfUnequalSize) {
  AlgorithmArguments arguments = on_nodes(7, 7, Collective::kAllToAll);
  arguments.node_of = {0, 0, 0, 0, 0, 1, 1};
  const VerifiedPlan plan = test::verified("hierarchical_exchange", arguments);
  EXPECT_EQ(test::operations(plan.plan(), 5, OpKind::kReceive).size(), 3U);
  EXPECT_EQ(test::operations(plan.plan(), 6, OpKind::kReceive).size(), 2U);
  EXPECT_EQ(test::operations(plan.plan(), 4, OpKind::kReceive).size(), 0U);
}

TEST(HierarchicalExchange, OneNodeOnlyFetches) {
  const VerifiedPlan plan = test::verified("hierarchical_exchange", on_nodes(6, 6, Collective::kAllToAll));
  EXPECT_EQ(test::count(plan.plan(), OpKind::kSend), 0);
  EXPECT_EQ(plan.report().steps, 1);
}

// A subtree's blocks move as one range, and every node is entered once.
TEST(BinomialBlocks, AMessageForEachNode) {
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    for (const Direction direction : {Direction::kLoad, Direction::kStore}) {
      AlgorithmArguments arguments = on_nodes(16, 4, collective);
      arguments.direction = direction;
      const VerifiedPlan plan = test::verified("binomial", arguments);
      EXPECT_EQ(test::count(plan.plan(), OpKind::kSend), 3);
      EXPECT_EQ(plan.report().steps, 2 + 2);
      std::multiset<int> sizes;
      for (int rank = 0; rank < 16; ++rank) {
        for (const Operation& send : test::operations(plan.plan(), rank, OpKind::kSend)) sizes.insert(send.chunks);
      }
      EXPECT_EQ(sizes, (std::multiset<int>{4, 4, 8}));
    }
  }
}

// From a root in the middle, blocks wrap around at the last rank, and a subtree then has two ranges.
TEST(BinomialBlocks, OperationsStayFewFromAnyRoot) {
  for (const int root : {0, 31, 63}) {
    for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
      const VerifiedPlan plan = test::verified("binomial", on_nodes(64, 64, collective, root));
      EXPECT_LE(test::count(plan.plan(), OpKind::kReduce), 2 * 64 + 2 * 7);
      EXPECT_EQ(plan.report().steps, 6);
    }
  }
}

TEST(BinomialBlocks, RefuseWhatTheyDoNotUse) {
  AlgorithmArguments arguments = on_nodes(4, 4, Collective::kGather);
  arguments.parts = 2;
  test::expect_invalid([&] { make_plan("binomial", arguments); }, "a gather takes no parts");
  arguments.parts = 1;
  arguments.access = Access::kZeroCopy;
  test::expect_invalid([&] { make_plan("binomial", arguments); }, "passes through the library's memory");
}

}  // namespace
}  // namespace plait
