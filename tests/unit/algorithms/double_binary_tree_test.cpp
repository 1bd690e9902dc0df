// Two trees (NVG-30).
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments trees_of(int ranks, Collective collective, int root = 0) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.root = root;
  return arguments;
}

// The number of ranks to which each rank passes a half on its way down, in the queue that does so.
std::map<int, int> children_in(const Plan& plan, int queue) {
  std::map<int, int> children;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    for (const Operation& operation : plan.ranks[rank].queues[queue].operations) {
      if (operation.kind == OpKind::kSignal && operation.peer_rank != rank) ++children[rank];
    }
  }
  return children;
}

// A rank that passes data on downwards passes on one half only, to one or two ranks.
TEST(DoubleBinaryTree, InnerNodesOfOneTreeAreLeavesOfTheOther) {
  constexpr int kDown = 1;
  for (int ranks = 2; ranks <= 70; ++ranks) {
    const Plan plan = make_plan("double_binary_tree", trees_of(ranks, Collective::kAllReduce));
    const auto children = children_in(plan, kDown);
    std::set<int> halves;
    for (const auto& [rank, count] : children) {
      EXPECT_LE(count, 2) << "rank " << rank << " of " << ranks;
      std::set<int> of_rank;
      for (const Operation& operation : plan.ranks[rank].queues[kDown].operations) {
        if (operation.kind == OpKind::kReduce) of_rank.insert(operation.chunk);
      }
      EXPECT_EQ(of_rank.size(), 1U) << "rank " << rank << " of " << ranks;
      halves.insert(of_rank.begin(), of_rank.end());
    }
    EXPECT_EQ(halves, (std::set<int>{0, 1}));
  }
}

TEST(DoubleBinaryTree, TheRootStandsAboveBoth) {
  for (const int root : {0, 3, 8}) {
    const Plan plan = make_plan("double_binary_tree", trees_of(9, Collective::kBroadcast, root));
    auto first = children_in(plan, 0), second = children_in(plan, 1);
    EXPECT_EQ(first[root], 1);
    EXPECT_EQ(second[root], 1);
    first.erase(root);
    for (const auto& [rank, count] : first) EXPECT_FALSE(rank != root && second.contains(rank));
  }
}

// Then no link of a rank carries more than the message, in each direction.
TEST(DoubleBinaryTree, NobodyTakesInMoreThanTheMessage) {
  for (const int ranks : {4, 7, 8, 31, 32}) {
    for (const Direction direction : {Direction::kLoad, Direction::kStore}) {
      for (const Collective collective : {Collective::kBroadcast, Collective::kReduce, Collective::kAllReduce}) {
        AlgorithmArguments arguments = trees_of(ranks, collective, ranks / 2);
        arguments.direction = direction;
        const VerifiedPlan plan = test::verified("double_binary_tree", arguments);
        std::map<int, int64_t> taken, given;
        for (const Traffic& traffic : plan.report().traffic) {
          if (traffic.from.rank == traffic.to.rank) continue;
          taken[traffic.to.rank] += traffic.chunks;
          given[traffic.from.rank] += traffic.chunks;
        }
        const int64_t most = (collective == Collective::kAllReduce ? 2 : 1) * plan.plan().chunk_count();
        for (const auto& [rank, chunks] : taken) EXPECT_LE(chunks, most);
        for (const auto& [rank, chunks] : given) EXPECT_LE(chunks, most);
      }
    }
  }
}

// Ranks of a node are neighbours in the trees, whatever their numbers.
TEST(DoubleBinaryTree, MessagesAreAsFewWhereNodesAreInterleaved) {
  AlgorithmArguments together = trees_of(16, Collective::kAllReduce), apart = together;
  for (int rank = 0; rank < 16; ++rank) {
    together.node_of.push_back(rank / 4);
    apart.node_of.push_back(rank % 4);
  }
  const auto messages = [](const AlgorithmArguments& arguments) {
    return test::count(test::verified("double_binary_tree", arguments).plan(), OpKind::kSend);
  };
  EXPECT_EQ(messages(apart), messages(together));
  EXPECT_LT(messages(apart), 2 * 2 * 15 / 2);  // less than half of the trees' edges, each up and down
}

}  // namespace
}  // namespace plait
