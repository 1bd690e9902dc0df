// The registry, and the arguments that all algorithms refuse.
#include "algorithms/algorithm.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "plan/proof_size.hpp"
#include "support/algorithm_plans.hpp"
#include "support/seed.hpp"
#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

using test::expect_invalid;

AlgorithmArguments four_ranks(Collective collective = Collective::kAllReduce) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = 4;
  arguments.links = test::links_of_all(4);
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
      const auto forms = test::forms_of(algorithm, four_ranks(collective));
      EXPECT_FALSE(forms.empty()) << algorithm.name << ", " << name(collective);
      for (const AlgorithmArguments& form : forms) {
        const Plan plan = algorithm.make(form);
        EXPECT_EQ(plan.algorithm.find(algorithm.name), 0U) << plan.algorithm;
        EXPECT_EQ(plan.rank_count(), 4);
      }
    }
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

// Every file in the folder is in the registry: nobody has to list it.
TEST(Registry, HoldsWhatTheFolderHolds) {
  const std::filesystem::path folder = PLAIT_SOURCE_DIR "/src/algorithms";
  std::set<std::string> files, names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::filesystem::path file = entry.path();
    if (file.extension() != ".cpp") continue;
    if (!std::filesystem::exists(file.replace_extension(".hpp"))) files.insert(file.stem());
  }
  for (const Algorithm& algorithm : algorithms()) names.emplace(algorithm.name);
  EXPECT_EQ(names, files);
  EXPECT_GE(names.size(), 9U);
}

TEST(Registry, SaysWhatItKnows) {
  expect_invalid([] { find_algorithm("rinks", Collective::kBroadcast); }, "use one of: binomial, chain");
  expect_invalid([] { find_algorithm("ring", Collective::kBroadcast); }, "use one of: binomial, chain");
  expect_invalid([] { find_algorithm("", Collective::kBarrier); }, "flat, recursive_doubling");
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
  arguments.parts = 3;
  EXPECT_EQ(make_plan("hierarchical_ring", arguments).algorithm, "hierarchical_ring(2x2, parts=3)");
  arguments.factors.clear();
  EXPECT_EQ(make_plan("ring", arguments).algorithm, "ring(parts=3)");
}

// Finds each algorithm by its own entry, without the registry's look-up.
class EveryAlgorithm : public ::testing::TestWithParam<size_t> {
 protected:
  const Algorithm& algorithm() const { return algorithms()[GetParam()]; }
  // Four ranks, as the algorithm accepts them.
  AlgorithmArguments legal() const { return test::forms_of(algorithm(), four_ranks(algorithm().collectives[0])).at(0); }
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
  arguments.parts = 0;
  expect_refused(arguments, "at least 1");
  arguments = legal();
  arguments.node_of = {0, 0, 0};
  expect_refused(arguments, "3 ranks");
  arguments = legal();
  arguments.engine = Engine::kNet;
  expect_refused(arguments, "use sm or cpu");
  arguments.engine = Engine::kCopy;  // in a staged plan
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

TEST_P(EveryAlgorithm, RefusesLinksThatAreNone) {
  AlgorithmArguments arguments = legal();
  const std::vector<DeviceLink> wrong[] = {{{0, 4, 25}}, {{-1, 2, 25}}, {{2, 1, 25}},           {{1, 1, 25}},
                                           {{0, 1, 0}},  {{0, 1, -1}},  {{0, 2, 5}, {0, 1, 5}}, {{0, 1, 5}, {0, 1, 5}}};
  for (const auto& links : wrong) {
    arguments.links = links;
    expect_refused(arguments, "is not as it should be");
  }
}

TEST_P(EveryAlgorithm, RefusesPathsThatAreNone) {
  AlgorithmArguments arguments = legal();
  const RankPath wrong[] = {
      {0, 4, PathKind::kDirect, -1, 25, 25}, {-1, 2, PathKind::kHost, -1, 25, 25}, {1, 1, PathKind::kHost, -1, 25, 25},
      {0, 1, PathKind::kDirect, 2, 25, 25},  {0, 1, PathKind::kRelay, -1, 25, 25}, {0, 1, PathKind::kRelay, 1, 25, 25},
      {0, 1, PathKind::kRelay, 4, 25, 25},   {0, 1, PathKind::kNet, -1, 25, 25},   {0, 1, PathKind::kDirect, -1, 25, 0},
      {0, 1, PathKind::kDirect, -1, 25, 50}, {0, 1, PathKind::kHost, -1, -2, -2}};
  for (const RankPath& path : wrong) {
    arguments.paths = {{path}};
    expect_refused(arguments, "is not as it should be");
  }
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

TEST_P(EveryAlgorithm, RefusesWhatItDoesNotUse) {
  const Uses& uses = algorithm().uses;
  for (const Collective collective : algorithm().collectives) {
    const bool moves = collective != Collective::kBarrier;
    const AlgorithmArguments plain = test::forms_of(algorithm(), four_ranks(collective)).at(0);
    AlgorithmArguments arguments = plain;
    arguments.parts = 2;
    if (!uses.parts || !moves) expect_refused(arguments, "has no parts");
    arguments = plain;
    arguments.direction = Direction::kStore;
    if (!uses.direction || !moves) expect_refused(arguments, "has no direction store");
    arguments.direction = Direction::kBoth;
    if (!uses.both || !moves) expect_refused(arguments, "has no direction both");
    arguments = plain;
    arguments.factors = {2, 2};
    if (!uses.factors || !moves) expect_refused(arguments, "has no factors");
    arguments = plain;
    arguments.count = 2;
    if (!uses.count || !moves) expect_refused(arguments, "has no count");
    arguments = plain;
    arguments.order = Order::kNearFirst;
    if (!uses.order || !moves) expect_refused(arguments, "has no order near_first");
    arguments = plain;
    arguments.radix = 3;
    if (!uses.radix || !moves) expect_refused(arguments, "has no radix");
    arguments = plain;
    arguments.shares = {{PathKind::kDirect, 1}, {PathKind::kHost, 1}};
    if (!uses.shares || !moves) expect_refused(arguments, "has no shares");
    arguments = plain;
    arguments.access = Access::kZeroCopy;
    if (!uses.zero_copy || !moves) expect_refused(arguments, "has no zero-copy plan");
    arguments.engine = Engine::kCopy;
    if (!uses.engine || !moves) expect_invalid([&] { algorithm().make(arguments); }, "algorithm");
  }
}

// Parts are limited, because they cost too much or because there are two queues.
TEST_P(EveryAlgorithm, RefusesPartsWithoutEnd) {
  if (!algorithm().uses.parts) return;
  for (AlgorithmArguments arguments : test::forms_of(algorithm(), four_ranks(algorithm().collectives[0]))) {
    arguments.parts = 1 << 30;
    expect_refused(arguments, "parts");
  }
}

// Code that builds plans to choose among them can bound the work.
TEST_P(EveryAlgorithm, BuildsNoMoreOperationsThanItIsAllowed) {
  AlgorithmArguments arguments = legal();
  const Plan plan = algorithm().make(arguments);
  int operations = 0;
  for (const RankPlan& rank : plan.ranks) {
    for (const Queue& queue : rank.queues) operations += static_cast<int>(queue.operations.size());
  }
  arguments.most_operations = operations;
  EXPECT_EQ(algorithm().make(arguments), plan);
  arguments.most_operations = operations - 1;
  EXPECT_THROW(algorithm().make(arguments), PlanTooLarge);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, ::testing::Range(size_t{0}, algorithms().size()),
                         [](const auto& info) { return std::string(algorithms()[info.param].name); });

TEST(SeveralNodes, RefusedWhereLoadAndStoreHaveToReach) {
  AlgorithmArguments arguments = four_ranks();
  arguments.node_of = {0, 0, 1, 1};
  expect_invalid([&] { make_plan("flat", arguments); }, "ranks 0 and 2 are on different nodes");
  expect_invalid([&] { make_plan("one_shot", arguments); }, "ranks 0 and 2 are on different nodes");
  expect_invalid([&] { make_plan("flat(store)", arguments); }, "for several nodes use one of: bruck");
  arguments.collective = Collective::kAllToAll;
  expect_invalid([&] { make_plan("flat(store)", arguments); }, "for several nodes use one of: hierarchical_exchange");
  arguments.collective = Collective::kAllReduce;
  arguments.groups = {{0, 2}, {1, 3}};
  expect_invalid([&] { make_plan("nvgroup_ring", arguments); }, "ranks 0 and 2 are in one group");
}

TEST(SeveralNodes, ServedByTheOthers) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      AlgorithmArguments arguments = four_ranks(collective);
      arguments.node_of = {5, 5, -1, -1};
      const std::vector<AlgorithmArguments> candidates = algorithm.candidates(arguments);
      if (candidates.empty()) continue;
      const VerifiedPlan plan = verify(algorithm.make(candidates[0]));
      EXPECT_GT(test::count(plan.plan(), OpKind::kSend), 0) << algorithm.name;
      for (const RankPlan& rank : plan.plan().ranks) {  // messages have queues of their own
        for (const Queue& queue : rank.queues) {
          for (const Operation& operation : queue.operations) {
            const bool message = operation.kind == OpKind::kSend || operation.kind == OpKind::kReceive;
            EXPECT_EQ(message && queue.engine != Engine::kNet, false) << algorithm.name;
            EXPECT_EQ(operation.kind == OpKind::kReduce && queue.engine == Engine::kNet, false) << algorithm.name;
          }
        }
      }
    }
  }
}

TEST(SeveralNodes, EveryCollectiveHasAnAlgorithm) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    AlgorithmArguments machine;
    machine.collective = static_cast<Collective>(i);
    machine.ranks = 6;
    machine.root = has_root(machine.collective) ? 4 : 0;
    machine.node_of = {0, 0, 1, 2, 2, 2};
    int served = 0;
    for (const Algorithm& algorithm : algorithms()) {
      if (!serves(algorithm, machine.collective)) continue;
      for (const AlgorithmArguments& candidate : algorithm.candidates(machine)) {
        EXPECT_NO_THROW(verify(algorithm.make(candidate))) << algorithm.name;
        ++served;
      }
    }
    EXPECT_GT(served, 0) << name(machine.collective);
  }
}

// Ranks that are in no group stay what three_stage sees; their nodes are levels all the same.
TEST(SeveralNodes, OfUnequalSizeAreLevelsWithLeaders) {
  AlgorithmArguments machine = four_ranks(Collective::kAllReduce);
  machine.ranks = 5;
  machine.node_of = {0, 0, 0, 1, 1};
  const auto& candidates = find_algorithm("hierarchical", machine.collective).candidates;
  EXPECT_TRUE(candidates(machine).empty());  // three_stage has them
  machine.groups = {{0}, {1}, {2}, {3}, {4}};
  ASSERT_FALSE(candidates(machine).empty());
  EXPECT_EQ(to_text(candidates(machine)[0].levels[0]), "node: flat(load, leaders=1)");
}

int64_t operations_of(const Plan& plan) {
  int64_t operations = 0;
  for (const RankPlan& rank : plan.ranks) {
    for (const Queue& queue : rank.queues) operations += static_cast<int64_t>(queue.operations.size());
  }
  return operations;
}

AlgorithmArguments many_ranks(Collective collective, int ranks, int of_a_node) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.root = has_root(collective) ? ranks / 3 : 0;
  for (int rank = 0; rank < ranks; ++rank) arguments.node_of.push_back(rank / of_a_node);
  return arguments;
}

// For each collective there is a plan of about p log p operations, or p^2 small ones for p^2 blocks, so that there is a
// choice at every accepted size.
// Hundreds under the sanitizers, since the proofs of thousands are slow there.
constexpr int kThousands = test::kSanitized ? 283 : 1415;

TEST(Sizes, EveryCollectiveCanBePlannedForThousands) {
  const std::pair<const char*, Collective> choices[] = {{"recursive_doubling", Collective::kAllReduce},
                                                        {"binomial", Collective::kReduce},
                                                        {"binomial", Collective::kBroadcast},
                                                        {"binomial", Collective::kGather},
                                                        {"binomial", Collective::kScatter},
                                                        {"recursive_doubling", Collective::kBarrier},
                                                        {"bruck", Collective::kReduceScatter},
                                                        {"bruck", Collective::kAllGather},
                                                        {"bruck", Collective::kAllReduce},
                                                        {"double_binary_tree", Collective::kAllReduce}};
  for (const auto& [algorithm, collective] : choices) {
    SCOPED_TRACE(join(algorithm, ", ", name(collective)));
    for (const int of_a_node : {8, kThousands}) {
      Plan plan = make_plan(algorithm, many_ranks(collective, kThousands, of_a_node));
      EXPECT_LT(operations_of(plan), kThousands * 11 * 20);
      if (plan.chunk_count() > 2) continue;  // such a plan takes a second or two
      EXPECT_NO_THROW(verify(std::move(plan)));
    }
    EXPECT_NO_THROW(verify(make_plan(algorithm, many_ranks(collective, 200, 8))));
  }
  EXPECT_LT(operations_of(make_plan("hierarchical_exchange", many_ranks(Collective::kAllToAll, kThousands, 8))),
            3'000'000);
  EXPECT_NO_THROW(verify(make_plan("hierarchical_exchange", many_ranks(Collective::kAllToAll, 200, 8))));
  for (const auto& [algorithm, collective] : {std::pair{"recursive_doubling", Collective::kAllReduce},
                                              {"binomial", Collective::kReduce},
                                              {"binomial", Collective::kBroadcast},
                                              {"recursive_doubling", Collective::kBarrier}}) {
    EXPECT_LT(operations_of(make_plan(algorithm, many_ranks(collective, 4096, 4096))), 4096 * 12 * 4);
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
  many.parts = 4;
  expect_invalid([&] { make_plan("ring", many); },
                 "2000 ranks x 8000 chunks to prove; the limit is 8388608. Use fewer ranks or parts");
}

TEST(Sizes, HundredsOfRanksAreProved) {
  AlgorithmArguments many = four_ranks();
  many.ranks = 256;
  many.factors = {16, 16};
  EXPECT_EQ(verify(make_plan("hierarchical_ring", many)).report().steps, 60);
}

}  // namespace
}  // namespace plait
