// NVGroup-Ring (NVG-54..62).
#include <gtest/gtest.h>

#include <set>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments equal_groups(int groups, int size) {
  AlgorithmArguments arguments;
  arguments.ranks = groups * size;
  arguments.engine = Engine::kSm;
  arguments.access = Access::kZeroCopy;
  arguments.groups.resize(groups);
  for (int rank = 0; rank < arguments.ranks; ++rank) arguments.groups[rank / size].push_back(rank);
  return arguments;
}

TEST(NvGroupRing, OneGroupIsFlat) {
  for (const Access access : {Access::kStaged, Access::kZeroCopy}) {
    AlgorithmArguments arguments = equal_groups(1, 6);
    arguments.access = access;
    Plan plan = make_plan("nvgroup_ring", arguments);
    const Plan flat = make_plan(access == Access::kZeroCopy ? "flat(store)" : "flat(load)", arguments);
    plan.algorithm = flat.algorithm;
    EXPECT_EQ(plan, flat);
  }
}

// NVG-03, NVG-42: slices tile each chunk, and every rank moves an equal amount over its link to the host.
TEST(NvGroupRing, SummitNodeUsesEveryLinkToTheHostAlike) {
  const VerifiedPlan plan = test::verified("nvgroup_ring", equal_groups(2, 3));
  EXPECT_EQ(plan.plan().chunk_count(), 2 * 3);
  for (int rank = 0; rank < 6; ++rank) {
    const int leader = rank / 3 * 3;
    // It moves its slice of M to the host, and its slices of M/2 (arrived) and of M (complete) from it. What the
    // leader's cpu queue passes on is in host memory already.
    EXPECT_EQ(test::traffic_between(plan.report(), {rank}, {leader, true}), 2);
    EXPECT_EQ(test::traffic_between(plan.report(), {leader, true}, {rank}), 1 + 2);
  }
}

TEST(NvGroupRing, CpuQueuesAtLeadersOnly) {
  const Plan plan = make_plan("nvgroup_ring", equal_groups(3, 4));
  for (int rank = 0; rank < 12; ++rank) {
    const auto& queues = plan.ranks[rank].queues;
    ASSERT_EQ(queues.size(), rank % 4 == 0 ? 2U : 1U);
    EXPECT_EQ(queues[0].engine, Engine::kSm);
    if (rank % 4 == 0) {
      EXPECT_EQ(queues[1].engine, Engine::kCpu);
    }
    EXPECT_EQ(plan.ranks[rank].host_slots, rank % 4 == 0 ? 2 * plan.chunk_count() : 0);
    EXPECT_EQ(plan.ranks[rank].scratch_slots, 2);  // sums of two chunks, one slice each
  }
}

// NVG-56: the first chunk goes to the host before the sums of the others are prepared, in the order in which they are
// needed.
TEST(NvGroupRing, FillsThePipeFirst) {
  const Plan plan = make_plan("nvgroup_ring", equal_groups(4, 2));
  for (int rank = 0; rank < 8; ++rank) {
    const int group = rank / 2;
    const auto reduces = test::operations(plan, rank, OpKind::kReduce);
    ASSERT_GE(reduces.size(), 4U);
    EXPECT_EQ(reduces[0].destinations[0].buffer, Buffer::kHost);
    EXPECT_EQ(reduces[0].chunk / 2, group);
    for (int t = 1; t < 4; ++t) {
      EXPECT_EQ(reduces[t].destinations[0].buffer, Buffer::kScratch);
      EXPECT_EQ(reduces[t].chunk / 2, (group - t + 4) % 4);
      EXPECT_EQ(reduces[t].chunks, 1);
    }
  }
}

TEST(NvGroupRing, UnequalGroups) {
  for (const auto& groups : std::vector<std::vector<std::vector<int>>>{
           {{0, 1, 2}, {3, 4}, {5}},
           {{5}, {4, 3, 2, 1, 0}},
           {{0, 1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11}, {12, 13, 14}, {15, 16, 17, 18}},
       }) {
    for (const Access access : {Access::kStaged, Access::kZeroCopy}) {
      AlgorithmArguments arguments;
      for (const auto& group : groups) arguments.ranks += static_cast<int>(group.size());
      arguments.ranks -= 1;  // parts is 1 by default
      arguments.groups = groups;
      arguments.access = access;
      arguments.parts = 2;
      EXPECT_NO_THROW(test::verified("nvgroup_ring", arguments));
    }
  }
}

// 7, 5, 3 and 4 would need 420 slices. The granularity stays at four for each rank of the largest group, and no rank
// has more than a quarter too much.
TEST(NvGroupRing, GranularityStaysSmall) {
  AlgorithmArguments arguments;
  arguments.ranks = 19;
  arguments.groups = {{0, 1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11}, {12, 13, 14}, {15, 16, 17, 18}};
  const VerifiedPlan plan = test::verified("nvgroup_ring", arguments);
  EXPECT_EQ(plan.plan().chunk_count(), 4 * 28);
  for (const auto& group : arguments.groups) {
    const double fair = 4 * 28.0 / static_cast<double>(group.size());
    for (const int rank : group) {
      const auto to_host = test::traffic_between(plan.report(), {rank}, {group[0], true});
      EXPECT_LE(static_cast<double>(to_host), 1.25 * fair);
      EXPECT_GE(static_cast<double>(to_host), 0.75 * fair);
    }
  }
}

// NVG-54: between nodes only leaders exchange data, from host memory to host memory, each with the next.
TEST(NvGroupRing, MessagesBetweenLeaders) {
  AlgorithmArguments arguments = equal_groups(4, 3);
  for (int rank = 0; rank < 12; ++rank) arguments.node_of.push_back(rank / 6);
  const VerifiedPlan plan = test::verified("nvgroup_ring", arguments);
  EXPECT_EQ(plan.report().steps, 4 * 4);
  EXPECT_EQ(test::count(plan.plan(), OpKind::kSend), 2 * 6);  // two of the four links cross
  for (const int leader : {3, 9}) {
    for (const Operation& send : test::operations(plan.plan(), leader, OpKind::kSend)) {
      EXPECT_EQ(send.peer_rank, (leader + 3) % 12);
      EXPECT_EQ(send.sources[0].buffer, Buffer::kHost);
      EXPECT_EQ(send.chunks, 3);
    }
  }
}

// NVG-62: parts of a chunk leave one by one.
TEST(NvGroupRing, PartsLeaveOneByOne) {
  AlgorithmArguments arguments = equal_groups(3, 2);
  arguments.parts = 4;
  const VerifiedPlan plan = test::verified("nvgroup_ring", arguments);
  EXPECT_EQ(plan.plan().chunk_count(), 3 * 4 * 2);
  EXPECT_EQ(plan.report().steps, 4 * 3);
}

// NVG-60: as printed, a leader asks for TO-CPU, and sends, only once a chunk has come. Nobody sends the first one.
TEST(NvGroupRing, AsPrintedItWaitsForEver) {
  for (const int groups : {2, 3, 16}) {
    AlgorithmArguments arguments = equal_groups(groups, 2);
    Plan plan = make_plan("nvgroup_ring", arguments);
    EXPECT_NO_THROW(verify(plan));
    for (int leader = 0; leader < arguments.ranks; leader += 2) {
      const int before = (leader + arguments.ranks - 2) % arguments.ranks;
      std::vector<Operation>& operations = plan.ranks[leader].queues[1].operations;
      const auto arrival = std::ranges::find_if(
          operations, [&](const Operation& it) { return it.kind == OpKind::kWait && it.peer_rank == before; });
      ASSERT_NE(arrival, operations.end());
      std::rotate(operations.begin(), arrival, arrival + 1);
    }
    try {
      verify(plan);
      ADD_FAILURE() << groups << " groups";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("waits for ever"), std::string::npos) << error.what();
    }
  }
}

// NVG-60: all numbers of groups up to 16, and as many as a large machine has.
TEST(NvGroupRing, AnyNumberOfGroups) {
  for (const int groups : {1, 2, 3, 4, 5, 8, 11, 16, 40}) {
    const VerifiedPlan plan = test::verified("nvgroup_ring", equal_groups(groups, 3));
    EXPECT_EQ(plan.report().steps, groups == 1 ? 2 : 4 * groups);
  }
}

}  // namespace
}  // namespace plait
