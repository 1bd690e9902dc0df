// Hierarchies of any levels (UEN-14, NVG-18, NVG-29, AWA-11), and the algorithms that are short for one.
#include <gtest/gtest.h>

#include <numeric>

#include "algorithms/spec.hpp"
#include "algorithms/steps/levels.hpp"
#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments hierarchy_of(int ranks, Collective collective = Collective::kAllReduce, int root = 0) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.root = root;
  return arguments;
}

// Nodes of `size` neighbours.
AlgorithmArguments over_nodes(int nodes, int size, Collective collective = Collective::kAllReduce, int root = 0) {
  AlgorithmArguments arguments = hierarchy_of(nodes * size, collective, root);
  for (int rank = 0; rank < nodes * size; ++rank) arguments.node_of.push_back(rank / size);
  return arguments;
}

void expect_same(std::string_view name, std::string_view levels, const AlgorithmArguments& arguments) {
  const Plan named = make_plan(name, arguments);
  Plan composed = make_plan(levels, arguments);
  composed.algorithm = named.algorithm;
  EXPECT_EQ(composed, named) << name;
}

TEST(Hierarchical, NamedHierarchiesAreShortForLevels) {
  for (const Access access : {Access::kStaged, Access::kZeroCopy}) {
    AlgorithmArguments arguments = over_nodes(4, 3);
    arguments.access = access;
    expect_same("three_stage", "hierarchical(group: flat(load, leaders=1), all: ring)", arguments);
    expect_same("three_stage(parts=5)", "hierarchical(group: flat(leaders=1), all: ring, parts=5)", arguments);
    expect_same("hierarchical_ring(3x4)", "hierarchical(3: ring, 4: ring)", arguments);
    expect_same("hierarchical_ring(2x6, parts=3)", "hierarchical(2: ring(parts=3), 6: ring(parts=3))", arguments);
    expect_same("recursive_doubling", "hierarchical(all: recursive_doubling)", arguments);
    expect_same("ring(parts=2)", "hierarchical(all: ring(parts=2))", arguments);
    for (const int root : {0, 5, 11}) {
      arguments.root = root;
      arguments.collective = Collective::kBroadcast;
      expect_same("binomial(store, parts=1)", "hierarchical(node: binomial(store), all: binomial(store))", arguments);
      arguments.collective = Collective::kReduce;
      expect_same("binomial(load, parts=4)", "hierarchical(node: binomial, all: binomial, parts=4)", arguments);
    }
    arguments.collective = Collective::kAllReduce;
  }
}

// NVG-97: one half of an all-reduce. A rank's own block is what it ends up with, or begins with.
TEST(Hierarchical, BlocksAreSharesOfTheLevels) {
  for (const Collective collective : {Collective::kReduceScatter, Collective::kAllGather}) {
    expect_same("ring(parts=2)", "hierarchical(all: ring(parts=2))", hierarchy_of(6, collective));
    expect_same("rabenseifner", "hierarchical(all: rabenseifner)", hierarchy_of(7, collective));
    const AlgorithmArguments arguments = over_nodes(3, 4, collective);
    const VerifiedPlan plan = test::verified("hierarchical(node: flat, all: ring)", arguments);
    EXPECT_EQ(plan.report().steps, 1 + 2);
    EXPECT_EQ(plan.plan().chunks_per_block, 1);
    std::vector<int64_t> between(12, 0), within(12, 0);
    for (const Traffic& traffic : plan.report().traffic) {
      const bool same_node = traffic.from.rank / 4 == traffic.to.rank / 4;
      (same_node ? within : between)[traffic.from.rank] += traffic.chunks;
    }
    // Over the network a rank sends a block for each other node; in its node, a quarter of everything to each
    // neighbour.
    for (const int64_t chunks : between) EXPECT_EQ(chunks, 2) << name(collective);
    for (const int64_t chunks : within) EXPECT_EQ(chunks, 3 * 3) << name(collective);
  }
}

TEST(Hierarchical, LevelsOfBlocksGiveEveryRankAShare) {
  const auto expect_refusal = [](std::string_view levels, const AlgorithmArguments& arguments, const char* part) {
    test::expect_invalid([&] { make_plan(join("hierarchical(", levels, ")"), arguments); }, part);
  };
  const AlgorithmArguments even = over_nodes(2, 3, Collective::kReduceScatter);
  expect_refusal("node: chain, all: ring", even, "level 'node: chain(load)' leaves 1 of 3 ranks with a share");
  expect_refusal("node: flat(leaders=2), all: ring", even, "leaves 2 of 3 ranks with a share");
  expect_refusal("node: ring(all_reduce), all: ring", even, "leaves 1 of 3 ranks with a share");
  AlgorithmArguments uneven = hierarchy_of(5, Collective::kAllGather);
  uneven.node_of = {0, 0, 0, 1, 1};
  expect_refusal("node: flat, all: ring", uneven, "joins 3 units for rank 0, and 2 for rank 3");
  AlgorithmArguments zero_copy = even;
  zero_copy.access = Access::kZeroCopy;
  expect_refusal("node: flat, all: ring", zero_copy, "goes through scratch; for zero-copy use");
}

// NVG-18: every list of factors moves 2(p-1)/p M, whatever performs a level.
TEST(Hierarchical, LevelsOfAnyAlgorithmMoveTheSame) {
  for (const char* levels :
       {"4: ring, 8: ring, 2: flat", "4: flat, 8: ring, 2: ring", "2: flat, 16: ring(parts=2), 2: flat"}) {
    const VerifiedPlan plan = test::verified(join("hierarchical(", levels, ")"), hierarchy_of(64));
    std::vector<int64_t> sent(64, 0);
    for (const Traffic& traffic : plan.report().traffic) sent[traffic.from.rank] += traffic.chunks;
    for (const int64_t chunks : sent) EXPECT_EQ(chunks * 64, 2 * 63 * plan.plan().chunk_count()) << levels;
  }
}

// NVG-61: Rabenseifner's algorithm and recursive doubling over groups; UEN-44: first four ranks, then pairs.
TEST(Hierarchical, StepsAreThoseOfTheLevels) {
  const auto steps = [](std::string_view levels, int ranks) {
    return test::verified(join("hierarchical(", levels, ")"), hierarchy_of(ranks)).report().steps;
  };
  EXPECT_EQ(steps("4: ring, 8: ring, 4: recursive_doubling", 128), 2 * 3 + 2 * 7 + 2);
  EXPECT_EQ(steps("4: flat, 32: rabenseifner", 128), 2 + 2 * 5);
  EXPECT_EQ(steps("4: rabenseifner, 2: ring, 2: ring", 16), 2 * 2 + 2 + 2);
  EXPECT_EQ(steps("8: flat(leaders=1), 16: recursive_doubling", 128), 2 + 4);
  EXPECT_EQ(steps("9: binomial(radix=3), 3: ring", 27), 2 * 2 + 2 * 2);
  // Below the last level, recursive doubling makes an all-reduce.
  EXPECT_EQ(steps("4: recursive_doubling, 4: ring", 16), 2 + 2 * 3);
}

// NVG-29 as printed: a whole all-reduce within nodes, then one between them, of which every rank takes part.
TEST(Hierarchical, AllReduceOfALevelComesBeforeTheNext) {
  const VerifiedPlan plan = test::verified("hierarchical(node: ring(all_reduce), all: ring)", over_nodes(3, 4));
  EXPECT_EQ(plan.report().steps, 2 * 3 + 2 * 2);
  std::vector<int64_t> between(12, 0);
  for (const Traffic& traffic : plan.report().traffic) {
    if (traffic.from.rank / 4 != traffic.to.rank / 4) between[traffic.from.rank] += traffic.chunks;
  }
  // Scattered first, a rank would send a quarter of it: NVG-32.
  for (const int64_t chunks : between) EXPECT_EQ(chunks * 3, 2 * 2 * plan.plan().chunk_count());
}

// NVG-14: k leaders of each node have a k-th of the message each.
TEST(Hierarchical, SeveralLeadersShareTheMessage) {
  for (const int leaders : {1, 2, 3}) {
    const VerifiedPlan plan =
        test::verified(join("hierarchical(node: flat(leaders=", leaders, "), all: ring)"), over_nodes(2, 4));
    std::vector<int64_t> between(8, 0);
    for (const Traffic& traffic : plan.report().traffic) {
      if (traffic.from.rank / 4 != traffic.to.rank / 4) between[traffic.from.rank] += traffic.chunks;
    }
    for (int rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(between[rank] * leaders, rank % 4 < leaders ? plan.plan().chunk_count() : 0);
    }
  }
}

// UEN-59, Horovod on Summit: four of a node's six GPUs have a quarter of the node's sums each, and between nodes
// halving and doubling move the least.
TEST(Hierarchical, FourOfSixGpusOfANodeTalkToOtherNodes) {
  const VerifiedPlan plan = test::verified("hierarchical(node: flat(leaders=4), all: rabenseifner)", over_nodes(8, 6));
  EXPECT_EQ(plan.report().steps, 2 + 2 * 3);
  std::vector<int64_t> between(48, 0);
  for (const Traffic& traffic : plan.report().traffic) {
    if (traffic.from.rank / 6 != traffic.to.rank / 6) between[traffic.from.rank] += traffic.chunks;
  }
  for (int rank = 0; rank < 48; ++rank) {
    EXPECT_EQ(between[rank] * 4 * 8, rank % 6 < 4 ? 2 * 7 * plan.plan().chunk_count() : 0) << rank;
  }
}

// TEM-14: parts on queues of their own, no more of them than there are stages.
TEST(Hierarchical, PartsHaveQueuesOfTheirOwn) {
  for (int parts = 1; parts <= 5; ++parts) {
    AlgorithmArguments arguments = over_nodes(2, 4);
    arguments.parts = parts;
    const VerifiedPlan plan = test::verified("hierarchical(2: flat, 2: flat, 2: flat)", arguments);
    const int sm =
        static_cast<int>(std::count_if(plan.plan().ranks[0].queues.begin(), plan.plan().ranks[0].queues.end(),
                                       [](const Queue& queue) { return queue.engine != Engine::kNet; }));
    EXPECT_EQ(sm, std::min(parts, 3));
  }
}

// AWA-11: the message enters every node once, and reaches every rank once, from any root and along any trees.
TEST(Hierarchical, BroadcastEntersEveryUnitOnce) {
  for (const char* inner : {"chain", "binomial", "flat"}) {
    for (const char* outer : {"chain", "binomial", "flat"}) {
      for (int root = 0; root < 12; ++root) {
        for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
          AlgorithmArguments arguments = over_nodes(3, 4, collective, root);
          arguments.parts = 3;
          const std::string text = join("hierarchical(node: ", inner, ", all: ", outer, ")");
          const VerifiedPlan plan = test::verified(text, arguments);
          std::vector<int64_t> crossings(12, 0);
          int64_t between = 0;
          for (const Traffic& traffic : plan.report().traffic) {
            if (traffic.from.rank == traffic.to.rank) continue;
            crossings[collective == Collective::kBroadcast ? traffic.to.rank : traffic.from.rank] += traffic.chunks;
            between += traffic.from.rank / 4 != traffic.to.rank / 4 ? traffic.chunks : 0;
          }
          for (int rank = 0; rank < 12; ++rank) EXPECT_EQ(crossings[rank], rank == root ? 0 : 3) << text;
          EXPECT_EQ(between, 2 * 3) << text;
        }
      }
    }
  }
}

std::string with_direction(const LevelAlgorithm& algorithm, std::string_view direction) {
  return algorithm.direction ? join(algorithm.name, "(", direction, ")") : std::string(algorithm.name);
}

// Zero-copy, trees of a broadcast store, and those of a reduce load.
bool goes_by(const LevelAlgorithm& algorithm, Collective collective, bool zero_copy, std::string_view direction) {
  if (!zero_copy) return true;
  if (collective == Collective::kReduce) return direction == "load";
  return direction == "store" || !algorithm.broadcast.streams;
}

// Calls check(plan, root) for any pair of algorithms, inside three nodes of four ranks and between them, with any root,
// staged and direct, by load and by store, and in parts.
template <class Check>
void for_any_pair(Collective collective, const Check& check) {
  std::vector<std::string> texts;
  for (const LevelAlgorithm& inner : level_algorithms()) {
    for (const LevelAlgorithm& outer : level_algorithms()) {
      if (!serves(inner, collective) || !serves(outer, collective)) continue;
      for (const auto& [zero_copy, direction] :
           {std::pair(false, "load"), {false, "store"}, {true, "load"}, {true, "store"}}) {
        if (!goes_by(inner, collective, zero_copy, direction) || !goes_by(outer, collective, zero_copy, direction))
          continue;
        texts.push_back(join("hierarchical(node: ", with_direction(inner, direction),
                             ", all: ", with_direction(outer, direction), zero_copy ? ", zero_copy)" : ")"));
      }
    }
  }
  for (const std::string& text : texts) {
    for (int root = 0; root < 12; ++root) {
      AlgorithmArguments arguments = over_nodes(3, 4, collective, root);
      arguments.parts = 1 + root % 3;
      SCOPED_TRACE(join(text, ", root ", root));
      check(test::verified(text, arguments), root);
    }
  }
}

// AWA-01, AWA-11..16, AWA-20: the message enters each node by its leader only.
TEST(Hierarchical, BroadcastsByAnyPairFromAnyRoot) {
  for_any_pair(Collective::kBroadcast, [](const VerifiedPlan& plan, int root) {
    for (const Traffic& it : plan.report().traffic) {
      if (it.from.rank / 4 == it.to.rank / 4) continue;
      const int first = it.to.rank / 4 * 4;
      EXPECT_EQ(it.to.rank, first == root / 4 * 4 ? root : first);
    }
  });
}

// The same backwards: every rank sends everything once, and what leaves a node does so from its leader.
TEST(Hierarchical, ReducesByAnyPairToAnyRoot) {
  for_any_pair(Collective::kReduce, [](const VerifiedPlan& plan, int root) {
    std::vector<int64_t> sent(12, 0);
    for (const Traffic& it : plan.report().traffic) {
      if (it.from.rank == it.to.rank) continue;
      sent[it.from.rank] += it.chunks;
      const int first = it.from.rank / 4 * 4;
      if (first == it.to.rank / 4 * 4) continue;
      EXPECT_EQ(it.from.rank, first == root / 4 * 4 ? root : first);
    }
    for (int rank = 0; rank < 12; ++rank) EXPECT_EQ(sent[rank], rank == root ? 0 : plan.plan().chunk_count());
  });
}

// Nodes may have any number of ranks each, and a level any number of members.
TEST(Hierarchical, ReducesOverAnyNumberOfRanks) {
  for (const LevelAlgorithm& algorithm : level_algorithms()) {
    if (!serves(algorithm, Collective::kReduce)) continue;
    for (const char* direction : {"load", "store"}) {
      const std::string level = with_direction(algorithm, direction);
      for (int ranks = 1; ranks <= 33; ranks += ranks < 18 ? 1 : 5) {
        AlgorithmArguments arguments = hierarchy_of(ranks, Collective::kReduce, ranks * 2 / 3);
        test::verified(join("hierarchical(all: ", level, ")"), arguments);
        for (int rank = 0; rank < ranks; ++rank) arguments.node_of.push_back(rank < 5 ? 0 : 1 + (rank - 5) / 3);
        test::verified(join("hierarchical(node: ", level, ", all: ", level, ", parts=2)"), arguments);
      }
    }
  }
}

// As docs/algorithms/levels.md says.
TEST(Hierarchical, StepsOfAReduce) {
  const auto steps = [](const char* text, int ranks) {
    return test::verified(text, hierarchy_of(ranks, Collective::kReduce, 1)).report().steps;
  };
  EXPECT_EQ(steps("hierarchical(all: ring)", 8), 7);
  EXPECT_EQ(steps("hierarchical(all: double_binary_tree)", 9), 4);
  EXPECT_EQ(steps("hierarchical(all: binomial(radix=4))", 16), 2);
  EXPECT_EQ(steps("hierarchical(4: ring, all: binomial)", 16), 3 + 2);
}

// Pieces that are under way at once: three of a ring of four, by two of a double binary tree.
TEST(Hierarchical, EachPieceOfAReduceGoesUpATreeOfItsOwn) {
  const auto chunks = [](const char* text) {
    return test::verified(text, over_nodes(4, 4, Collective::kReduce)).plan().chunk_count();
  };
  EXPECT_EQ(chunks("hierarchical(node: chain, all: chain)"), 1);
  EXPECT_EQ(chunks("hierarchical(node: ring, all: ring)"), 3);
  EXPECT_EQ(chunks("hierarchical(node: ring, all: double_binary_tree, parts=2)"), 12);
}

// Parts of one queue follow one another, and what comes to a leader by pieces goes on by pieces.
TEST(Hierarchical, ATreeInsideNodesPassesOnEachPieceOfTheRingOfLeaders) {
  const VerifiedPlan plan =
      test::verified("hierarchical(node: chain(store), all: scatter_ring)", over_nodes(4, 2, Collective::kBroadcast));
  int copies = 0;
  for (const Operation& it : plan.plan().ranks[3].queues[0].operations) copies += it.kind == OpKind::kReduce ? 1 : 0;
  EXPECT_EQ(copies, 4);
}

// NVG-96: half of the sums at each of two roots, so that both trees work at the same time.
TEST(Hierarchical, DoubleBinaryTreeOverGroups) {
  AlgorithmArguments arguments = over_nodes(8, 4);
  const VerifiedPlan plan = test::verified("hierarchical(node: flat, all: double_binary_tree)", arguments);
  EXPECT_EQ(plan.report().steps, 2 + 2 * 3);
  const VerifiedPlan below = test::verified("hierarchical(node: double_binary_tree, all: ring)", arguments);
  EXPECT_EQ(below.report().steps, 2 * 2 + 2 * 7);
}

// In the picture of hierarchical.cpp.
TEST(Hierarchical, RootLeadsItsUnits) {
  const VerifiedPlan plan =
      test::verified("hierarchical(4: chain, 2: binomial)", hierarchy_of(8, Collective::kBroadcast, 5));
  for (const auto& [from, to] : {std::pair{5, 0}, {5, 6}, {6, 7}, {7, 4}, {0, 1}, {1, 2}, {2, 3}}) {
    EXPECT_EQ(test::traffic_between(plan.report(), {from}, {to}), 1) << from << " to " << to;
  }
  EXPECT_EQ(plan.report().steps, 4);
}

TEST(Hierarchical, DerivesLevelsFromTheMachine) {
  const auto label = [](const AlgorithmArguments& arguments) { return make_plan("hierarchical", arguments).algorithm; };
  AlgorithmArguments arguments = hierarchy_of(8);
  EXPECT_EQ(label(arguments), "hierarchical(all: ring)");
  arguments.groups = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  EXPECT_EQ(label(arguments), "hierarchical(group: flat(load), all: ring)");
  arguments.node_of = {0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_EQ(label(arguments), "hierarchical(group: flat(load), node: flat(load), all: ring)");
  arguments.engine = Engine::kSm;
  arguments.groups = {{0, 1, 2, 3}, {4, 5, 6, 7}};  // nodes join nothing more
  EXPECT_EQ(label(arguments), "hierarchical(group: flat(store), all: ring)");
  arguments.groups = {{0, 1, 2, 4}, {3, 5, 6, 7}};  // over nodes: no level that could come first
  EXPECT_EQ(label(arguments), "hierarchical(node: flat(store), all: ring)");
  arguments.groups = {{0, 1, 2}, {3}, {4, 5, 6, 7}};
  EXPECT_EQ(label(arguments), "hierarchical(group: flat(store, leaders=1), node: flat(store, leaders=1), all: ring)");
  arguments.collective = Collective::kBroadcast;
  EXPECT_EQ(label(arguments), "hierarchical(group: chain(store), node: chain(store), all: binomial(store))");
}

TEST(Hierarchical, RefusesLevelsThatDoNotFit) {
  const auto refused = [](const AlgorithmArguments& arguments, std::string_view levels, const std::string& part) {
    test::expect_invalid([&] { make_plan(join("hierarchical(", levels, ")"), arguments); }, part);
  };
  refused(hierarchy_of(12), "5: ring, all: ring", "level '5: ring' cannot join 12 units");
  refused(hierarchy_of(12), "2: ring, 3: ring",
          "leave 2 units apart; the product of the factors has to be the number of ranks, 12");
  refused(hierarchy_of(12), "2: ring, all: ring(all_reduce)", "the last, which makes an all-reduce anyway");
  refused(over_nodes(3, 4), "3: ring, node: ring, all: ring", "comes too late: a level before it joined ranks 3 and 4");
  AlgorithmArguments uneven = hierarchy_of(5);
  uneven.node_of = {0, 0, 1, 1, 1};
  refused(uneven, "node: ring, all: ring", "joins units of different sizes");
  refused(uneven, "node: ring, all: ring", "flat(leaders=1)");
  make_plan("hierarchical(node: binomial, all: ring)", uneven);
  const AlgorithmArguments broadcast = over_nodes(3, 4, Collective::kBroadcast);
  refused(broadcast, "node: ring, all: chain",
          "level 'node: ring' of a broadcast has no way of its own; use one of: binomial, chain");
  refused(broadcast, "node: chain(parts=2), all: chain", "let the whole hierarchy have them, parts=2");
  refused(broadcast, "node: flat(leaders=2), all: chain", "one rank of each unit leads");
  refused(broadcast, "node: chain(all_reduce), all: chain", "makes no all-reduce");
  refused(broadcast, "node: chain(load), all: chain(load), zero_copy",
          "of a zero-copy broadcast goes by store, not by load");
  const AlgorithmArguments reduce = over_nodes(3, 4, Collective::kReduce);
  refused(reduce, "node: chain(load), all: chain(store)", "the other way than 'node: chain(load)'");
  refused(reduce, "node: chain, all: rabenseifner",
          "of a reduce has no way of its own; use one of: binomial, chain, double_binary_tree, flat, ring");
  refused(over_nodes(3, 4), "node: flat, all: scatter_ring",
          "'all: scatter_ring(load)' is for a broadcast only; levels of all_reduce are: binomial, chain");
}

// Callers that fill in levels themselves are told the same as those who write them.
TEST(Hierarchical, RefusesLevelsThatNoTextCouldAskFor) {
  const auto refused = [](const Level& level, const std::string& part) {
    AlgorithmArguments arguments = hierarchy_of(4);
    arguments.levels = {level, {.reach = Reach::kAll, .algorithm = "ring"}};
    test::expect_invalid([&] { find_algorithm("hierarchical", Collective::kAllReduce).make(arguments); }, part);
  };
  refused({.factor = 0, .algorithm = "ring"}, "'0', which is not a positive number");
  refused({.factor = 2, .algorithm = "ring", .parts = 0}, "'parts=0', which is not a positive number");
  refused({.factor = 2, .algorithm = "flat", .parts = 2}, "never cuts a piece into any");
  refused({.factor = 2, .algorithm = "flat", .leaders = -1}, "'leaders=-1', which is not a positive number");
  refused({.factor = 2, .algorithm = "ring", .direction = Direction::kLoad}, "moves data one way only");
  refused({.factor = 2, .algorithm = ""}, "is no algorithm for a level");
}

}  // namespace
}  // namespace plait
