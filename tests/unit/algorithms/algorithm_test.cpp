// The registry, and what all algorithms refuse.
#include "algorithms/algorithm.hpp"

#include <gtest/gtest.h>

#include <set>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

using test::expect_invalid;

AlgorithmArguments four_ranks(Collective collective = Collective::kAllReduce) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = 4;
  return arguments;
}

// Four ranks as `algorithm` takes them.
AlgorithmArguments four_ranks(const Algorithm& algorithm, Collective collective) {
  AlgorithmArguments arguments = four_ranks(collective);
  if (algorithm.name == "pull") arguments.reach = Reach::kPeer;
  return arguments;
}

TEST(Registry, HoldsEveryAlgorithmInOrder) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    names.emplace_back(algorithm.name);
    EXPECT_FALSE(algorithm.summary.empty());
    EXPECT_FALSE(algorithm.source.empty());
    ASSERT_FALSE(algorithm.collectives.empty());
    for (const Collective collective : algorithm.collectives) {
      EXPECT_EQ(&find_algorithm(algorithm.name, collective), &algorithm);
      const Plan plan = make_plan(algorithm.name, four_ranks(algorithm, collective));
      EXPECT_EQ(plan.algorithm.find(algorithm.name), 0U) << plan.algorithm;
      EXPECT_EQ(plan.rank_count(), 4);
    }
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(names.size(), 14U);
}

TEST(Registry, SaysWhatItKnows) {
  expect_invalid([] { find_algorithm("rings", Collective::kBroadcast); }, "binomial, chain, chain_push, flat");
  expect_invalid([] { find_algorithm("ring", Collective::kBroadcast); },
                 "use one of: binomial, chain, chain_push, flat");
  expect_invalid([] { find_algorithm("", Collective::kBarrier); }, "flat, push, recursive_doubling");
  expect_invalid([] { make_plan("chain", four_ranks()); }, "does not serve all_reduce");
  expect_invalid([] { find_algorithm("rng", Collective::kAllReduce); }, "; did you mean 'ring'?");
  EXPECT_EQ(find_algorithm("One-Shot", Collective::kAllReduce).name, "one_shot");
}

TEST(Registry, CollectivesHaveTheNamesOfNcclAndMpi) {
  for (const char* text : {"all_reduce", "allreduce", "AllReduce", "all-reduce", "ncclAllReduce", "MPI_Allreduce"}) {
    EXPECT_EQ(parse_collective(text), Collective::kAllReduce) << text;
  }
  EXPECT_EQ(parse_collective("bcast"), Collective::kBroadcast);
  EXPECT_EQ(parse_collective("MPI_Reduce_scatter_block"), Collective::kReduceScatter);
  EXPECT_EQ(parse_collective("alltoall"), Collective::kAllToAll);
  expect_invalid([] { parse_collective("all_gathr"); }, "; did you mean 'all_gather'?");
  expect_invalid([] { parse_collective("everything"); }, "all_to_all, barrier");
}

TEST(Registry, NamesParameters) {
  AlgorithmArguments arguments = four_ranks();
  arguments.factors = {1, 4, 1};
  EXPECT_EQ(make_plan("hierarchical_ring", arguments).algorithm, "hierarchical_ring(4)");
  arguments.factors = {2, 2};
  arguments.pipeline = 3;
  EXPECT_EQ(make_plan("hierarchical_ring", arguments).algorithm, "hierarchical_ring(2x2, pipeline 3)");
  EXPECT_EQ(make_plan("ring", arguments).algorithm, "ring(pipeline 3)");
}

// Each algorithm by its own entry, without the registry's look-up.
class EveryAlgorithm : public ::testing::TestWithParam<size_t> {
 protected:
  const Algorithm& algorithm() const { return algorithms()[GetParam()]; }
  AlgorithmArguments legal() const { return four_ranks(algorithm(), algorithm().collectives[0]); }
  void expect_refused(const AlgorithmArguments& arguments, const std::string& part) {
    expect_invalid([&] { algorithm().make(arguments); }, part);
  }
};

TEST_P(EveryAlgorithm, RefusesWhatNobodyCanUse) {
  AlgorithmArguments arguments = legal();
  EXPECT_NO_THROW(verify(algorithm().make(arguments)));
  arguments.ranks = 0;
  expect_refused(arguments, "at least one rank");
  arguments.ranks = -3;
  expect_refused(arguments, "at least one rank");
  arguments = legal();
  arguments.pipeline = 0;
  expect_refused(arguments, "from 1 on");
  arguments = legal();
  arguments.node_of = {0, 0, 0};
  expect_refused(arguments, "3 ranks");
  arguments = legal();
  arguments.engine = Engine::kNet;
  expect_refused(arguments, "sm or cpu");
  if (algorithm().name == "pull") return;  // which only copies
  arguments.engine = Engine::kCopy;
  expect_refused(arguments, "use sm or cpu");
}

TEST_P(EveryAlgorithm, RefusesGroupsThatAreNoPartition) {
  AlgorithmArguments arguments = legal();
  arguments.groups = {{0, 1}, {2}};
  expect_refused(arguments, "rank 3 is in 0 groups");
  arguments.groups = {{0, 1}, {2, 1, 3}};
  expect_refused(arguments, "rank 1 is in 2 groups");
  arguments.groups = {{0, 1, 2, 3}, {}};
  expect_refused(arguments, "empty");
  arguments.groups = {{0, 1, 2, 3, 4}};
  expect_refused(arguments, "rank 4 of a group does not exist");
  arguments.groups = {{0, 1, 2, -1}};
  expect_refused(arguments, "rank -1");
}

TEST_P(EveryAlgorithm, RefusesOtherCollectivesAndRoots) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    const Collective collective = static_cast<Collective>(i);
    const auto& served = algorithm().collectives;
    AlgorithmArguments arguments = four_ranks(collective);
    if (std::find(served.begin(), served.end(), collective) == served.end()) {
      expect_refused(arguments, "does not serve");
    } else if (has_root(collective)) {
      arguments.root = 4;
      expect_refused(arguments, "root 4");
      arguments.root = -1;
      expect_refused(arguments, "root -1");
    }
  }
}

TEST_P(EveryAlgorithm, RefusesPipelinesWithoutEnd) {
  AlgorithmArguments arguments = legal();
  arguments.pipeline = 1 << 30;
  const std::set<std::string_view> without = {"one_shot", "one_shot_push", "pull", "push", "recursive_doubling"};
  if (without.contains(algorithm().name)) {
    EXPECT_NO_THROW(algorithm().make(arguments));  // they have none
  } else {
    expect_refused(arguments, "smaller pipeline");
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, ::testing::Range(size_t{0}, algorithms().size()),
                         [](const auto& info) { return std::string(algorithms()[info.param].name); });

TEST(SeveralNodes, RefusedWhereLoadAndStoreHaveToReach) {
  AlgorithmArguments arguments = four_ranks();
  arguments.node_of = {0, 0, 1, 1};
  expect_invalid([&] { make_plan("flat", arguments); }, "ranks 0 and 2 are on different nodes");
  expect_invalid([&] { make_plan("one_shot", arguments); }, "ranks 0 and 2 are on different nodes");
  expect_invalid([&] { make_plan("push", arguments); }, "use an algorithm for several nodes, such as ring");
  arguments.collective = Collective::kAllToAll;
  expect_invalid([&] { make_plan("push", arguments); }, "no algorithm does all_to_all over several nodes yet");
  arguments.collective = Collective::kAllReduce;
  arguments.groups = {{0, 2}, {1, 3}};
  expect_invalid([&] { make_plan("nvgroup_ring", arguments); }, "ranks 0 and 2 are in one group");
  arguments.collective = Collective::kBarrier;
  expect_invalid([&] { make_plan("recursive_doubling", arguments); }, "different nodes");
}

TEST(SeveralNodes, ServedByTheOthers) {
  for (const Algorithm& algorithm : algorithms()) {
    const std::set<std::string_view> one_node_only = {"chain_push", "flat", "one_shot", "one_shot_push",
                                                      "pull",       "push", "push_pull"};
    if (one_node_only.contains(algorithm.name)) continue;
    for (const Collective collective : algorithm.collectives) {
      if (collective == Collective::kBarrier) continue;
      AlgorithmArguments arguments = four_ranks(collective);
      arguments.node_of = {5, 5, -1, -1};
      const VerifiedPlan plan = test::verified(algorithm.name, arguments);
      EXPECT_GT(test::count(plan.plan(), OpKind::kSend), 0) << algorithm.name;
      for (const RankPlan& rank : plan.plan().ranks) {  // messages have lanes of their own
        for (const Lane& lane : rank.lanes) {
          for (const Operation& operation : lane.operations) {
            const bool message = operation.kind == OpKind::kSend || operation.kind == OpKind::kReceive;
            EXPECT_EQ(message && lane.engine != Engine::kNet, false) << algorithm.name;
            EXPECT_EQ(operation.kind == OpKind::kFold && lane.engine == Engine::kNet, false) << algorithm.name;
          }
        }
      }
    }
  }
}

TEST(Sizes, MoreThanCanBeProvedIsRefusedAtOnce) {
  AlgorithmArguments many = four_ranks();
  many.ranks = 12000;
  for (const char* name : {"ring", "hierarchical_ring"}) {
    expect_invalid([&] { make_plan(name, many); },
                   "would have 12000 ranks x 12000 chunks to prove; the limit is 8388608. Use fewer ranks");
  }
  many.ranks = 2000;
  many.pipeline = 4;
  expect_invalid([&] { make_plan("ring", many); },
                 "2000 ranks x 8000 chunks to prove; the limit is 8388608. Use fewer ranks or a smaller pipeline");
}

TEST(Sizes, HundredsOfRanksAreProved) {
  AlgorithmArguments many = four_ranks();
  many.ranks = 256;
  many.factors = {16, 16};
  EXPECT_EQ(verify(make_plan("hierarchical_ring", many)).report().steps, 60);
}

}  // namespace
}  // namespace plait
