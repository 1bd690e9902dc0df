// Hierarchical all-reduce in three stages (TEM-13..16).
#include <gtest/gtest.h>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments two_sockets(int gpus) {
  AlgorithmArguments arguments;
  arguments.ranks = 2 * gpus;
  arguments.groups = {{}, {}};
  for (int rank = 0; rank < arguments.ranks; ++rank) arguments.groups[rank / gpus].push_back(rank);
  return arguments;
}

TEST(ThreeStage, TwoSocketsOfOneToFourGpus) {
  for (int gpus = 1; gpus <= 4; ++gpus) {
    for (const Access access : {Access::kStaged, Access::kZeroCopy}) {
      AlgorithmArguments arguments = two_sockets(gpus);
      arguments.access = access;
      const VerifiedPlan plan = test::verified("three_stage", arguments);
      EXPECT_EQ(plan.report().steps, 2 + (gpus > 1 ? 2 : 0));
      // Only leaders cross the sockets, with M each way.
      for (const Traffic& traffic : plan.report().traffic) {
        const bool crosses = traffic.from.rank / gpus != traffic.to.rank / gpus;
        EXPECT_TRUE(!crosses || (traffic.from.rank % gpus == 0 && traffic.to.rank % gpus == 0));
        EXPECT_EQ(traffic.chunks, plan.plan().chunk_count());
      }
    }
  }
}

TEST(ThreeStage, PeerMembersDoNothingButSignalAndWait) {
  AlgorithmArguments arguments = two_sockets(3);
  arguments.access = Access::kZeroCopy;
  const Plan plan = make_plan("three_stage", arguments);
  for (const int member : {1, 2, 4, 5}) {
    EXPECT_EQ(test::operations(plan, member, OpKind::kReduce).size(), 0U);
    EXPECT_EQ(plan.ranks[member].scratch_slots, 0);
  }
}

TEST(ThreeStage, PartsHaveQueuesOfTheirOwn) {
  AlgorithmArguments arguments = two_sockets(2);
  for (int parts = 1; parts <= 7; ++parts) {
    arguments.parts = parts;
    const VerifiedPlan plan = test::verified("three_stage", arguments);
    for (const RankPlan& rank : plan.plan().ranks) {
      EXPECT_EQ(rank.queues.size(), static_cast<size_t>(std::min(parts, 3)));
    }
    // Three parts take as many steps as one.
    EXPECT_EQ(plan.report().steps, 2 + 2 * ((parts + 2) / 3));
  }
}

TEST(ThreeStage, LeaderIsTheFirstOfItsGroup) {
  AlgorithmArguments arguments;
  arguments.ranks = 5;
  arguments.groups = {{3, 0}, {4, 1, 2}};
  const VerifiedPlan plan = test::verified("three_stage", arguments);
  EXPECT_GT(test::traffic_between(plan.report(), {3}, {4}), 0);
  EXPECT_GT(test::traffic_between(plan.report(), {4}, {3}), 0);
  EXPECT_EQ(test::traffic_between(plan.report(), {0}, {4}), 0);
}

TEST(ThreeStage, MembersOnOtherNodesGetMessages) {
  AlgorithmArguments arguments = two_sockets(2);
  arguments.node_of = {0, 1, 2, 3};
  for (const Access access : {Access::kStaged, Access::kZeroCopy}) {
    arguments.access = access;
    EXPECT_GT(test::count(test::verified("three_stage", arguments).plan(), OpKind::kSend), 0);
  }
}

TEST(ThreeStage, WithoutGroupsNodesAreGroups) {
  AlgorithmArguments arguments;
  arguments.ranks = 6;
  arguments.node_of = {0, 0, 0, 1, 1, 1};
  const VerifiedPlan plan = test::verified("three_stage", arguments);
  EXPECT_EQ(test::count(plan.plan(), OpKind::kSend), 4);  // two leaders, two steps
}

}  // namespace
}  // namespace plait
