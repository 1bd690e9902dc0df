// Random plans of every algorithm: verified, counted against the documented formulas, made twice, and executed on
// numbers by an interpreter that knows nothing of the verifier.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <numeric>
#include <random>

#include "algorithms/spec.hpp"
#include "algorithms/steps/levels.hpp"
#include "base/error.hpp"
#include "plan/text.hpp"
#include "plan/verifier.hpp"
#include "property/documented_costs.hpp"
#include "property/interpreter.hpp"
#include "support/algorithm_plans.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using test::check_nvgroup_traffic;
using test::crossings;
using test::documented_crossings;
using test::documented_in_place;
using test::documented_steps;

using Random = std::mt19937_64;

int pick(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
bool coin(Random& random) { return pick(random, 0, 1) == 1; }

// ---- Random arguments ----

std::vector<int> random_nodes(Random& random, int ranks) {
  std::vector<int> nodes;
  if (coin(random)) {  // neighbours together
    const int size = pick(random, 1, ranks);
    for (int rank = 0; rank < ranks; ++rank) nodes.push_back(rank / size);
  } else {
    for (int rank = 0; rank < ranks; ++rank) nodes.push_back(pick(random, 0, 3) * 10);
  }
  return nodes;
}

std::vector<std::vector<int>> random_groups(Random& random, const AlgorithmArguments& arguments, bool within_nodes) {
  std::vector<int> ranks(arguments.ranks);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), random);
  const auto node = [&](int rank) { return arguments.node_of.empty() ? 0 : arguments.node_of[rank]; };
  if (within_nodes) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return node(a) < node(b); });
  }
  const int largest = pick(random, 1, std::max(arguments.ranks, 1));
  std::vector<std::vector<int>> groups;
  int room = 0;
  for (const int rank : ranks) {
    const bool other_node = within_nodes && !groups.empty() && node(groups.back()[0]) != node(rank);
    if (room-- == 0 || other_node) {
      groups.emplace_back();
      room = (coin(random) ? largest : pick(random, 1, largest)) - 1;
    }
    groups.back().push_back(rank);
  }
  return groups;
}

std::vector<int> random_factors(Random& random, int ranks) {
  std::vector<int> factors;
  while (ranks > 1) {
    int factor = pick(random, 2, ranks);
    while (ranks % factor != 0) --factor;
    factors.push_back(factor);
    if (factor == 1) continue;
    ranks /= factor;
  }
  return factors;
}

// A tree and some more links; or, seldom, links that do not join all.
std::vector<DeviceLink> random_links(Random& random, int ranks) {
  const int density = pick(random, 0, 3);
  std::vector<int> below(ranks);
  for (int rank = 1; rank < ranks; ++rank) below[rank] = pick(random, 0, rank - 1);
  std::vector<DeviceLink> links;
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      if (below[b] != a && pick(random, 0, 3) >= density) continue;
      links.push_back({a, b, static_cast<double>(pick(random, 1, 4) * 25)});
    }
  }
  if (!links.empty() && pick(random, 0, 9) == 0) links.erase(links.begin());
  return links;
}

// Paths of some kinds between all ranks, relays by up to two ranks; or, seldom, one path less.
std::vector<RankPath> random_paths(Random& random, int ranks) {
  const bool host = coin(random), relay = coin(random);
  const auto path = [&](int from, int to, PathKind kind, int via = -1) {
    const double gbps = static_cast<double>(pick(random, 1, 20) * 5);
    return RankPath{from, to, kind, via, gbps, gbps / pick(random, 1, 2)};
  };
  std::vector<RankPath> paths;
  for (int from = 0; from < ranks; ++from) {
    for (int d = 1; d < ranks; ++d) {
      const int to = (from + d) % ranks;
      paths.push_back(path(from, to, PathKind::kDirect));
      if (host) paths.push_back(path(from, to, PathKind::kHost));
      for (int i = 0; i < 2 && relay; ++i) {
        const int via = pick(random, 0, ranks - 1);
        if (via != from && via != to) paths.push_back(path(from, to, PathKind::kRelay, via));
      }
    }
  }
  if (!paths.empty() && pick(random, 0, 9) == 0) paths.erase(paths.begin() + pick(random, 0, ranks - 2));
  return paths;
}

std::vector<PathShare> random_shares(Random& random) {
  std::vector<PathShare> shares;
  for (const PathKind kind : {PathKind::kDirect, PathKind::kHost, PathKind::kRelay}) {
    if (coin(random)) shares.push_back({kind, pick(random, 1, 9)});
  }
  std::shuffle(shares.begin(), shares.end(), random);
  return shares;
}

template <class Element>
Element any_of(Random& random, const std::vector<Element>& from) {
  return from[pick(random, 0, static_cast<int>(from.size()) - 1)];
}

// Random factors, or those of the machine, or neighbours first.
std::vector<Level> random_reaches(Random& random, int ranks) {
  std::vector<Level> levels;
  for (const int factor : random_factors(random, ranks)) levels.emplace_back().factor = factor;
  if (!levels.empty() && coin(random)) return levels;
  if (!levels.empty() && coin(random)) {
    levels.resize(1);
  } else {
    levels.clear();
  }
  if (coin(random)) levels.push_back({.reach = Reach::kGroup});
  if (coin(random)) levels.push_back({.reach = Reach::kNode});
  levels.push_back({.reach = Reach::kAll});
  return levels;
}

// Any algorithm on each level, with anything that it takes.
std::vector<Level> random_levels(Random& random, const AlgorithmArguments& arguments) {
  std::vector<Level> levels = random_reaches(random, arguments.ranks);
  const bool has_root = plait::has_root(arguments.collective);
  const Direction direction = any_of(random, std::vector{Direction::kLoad, Direction::kStore});
  const bool has_direction = coin(random);
  for (Level& level : levels) {
    LevelAlgorithm algorithm = any_of(random, level_algorithms());
    while (has_root && !serves(algorithm, arguments.collective)) algorithm = any_of(random, level_algorithms());
    level.algorithm = algorithm.name;
    if (has_root && has_direction) level.direction = direction;
    if (algorithm.radix && coin(random)) level.radix = pick(random, 2, 8);
    const bool is_reduce = arguments.collective == Collective::kReduce;  // one tree, in one direction
    if (algorithm.direction && !is_reduce && coin(random)) {
      level.direction = coin(random) ? Direction::kLoad : Direction::kStore;
    }
    if (has_root) continue;
    if (algorithm.parts && coin(random)) level.parts = pick(random, 1, 3);
    if (algorithm.leaders && coin(random)) level.leaders = pick(random, 1, 3);
    level.all_reduce = &level != &levels.back() && pick(random, 0, 3) == 0;
  }
  return levels;
}

Engine random_engine(Random& random, const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  if (algorithm.uses.engine && arguments.access == Access::kZeroCopy && coin(random)) return Engine::kCopy;
  return coin(random) ? Engine::kSm : Engine::kCpu;
}

// Of whatever the algorithm uses, but perhaps not together.
AlgorithmArguments drawn_arguments(Random& random, const Algorithm& algorithm, Collective collective, int most_ranks) {
  const Uses uses = collective == Collective::kBarrier ? Uses{} : algorithm.uses;
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = pick(random, 1, most_ranks);
  arguments.root = pick(random, 0, arguments.ranks - 1);
  arguments.direction = any_of(random, test::directions_of(algorithm, collective));
  if (uses.zero_copy && coin(random)) arguments.access = Access::kZeroCopy;
  arguments.engine = random_engine(random, algorithm, arguments);
  if (uses.parts && coin(random)) arguments.parts = pick(random, 1, 7);
  if (coin(random)) arguments.node_of = random_nodes(random, arguments.ranks);
  if (coin(random)) arguments.groups = random_groups(random, arguments, coin(random));
  if (coin(random)) arguments.links = random_links(random, arguments.ranks);
  if (uses.factors && coin(random))
    arguments.factors = random_factors(random, pick(random, (arguments.ranks + 1) / 2, arguments.ranks));
  if (uses.levels && pick(random, 0, 3) > 0) arguments.levels = random_levels(random, arguments);
  if (uses.count && coin(random)) arguments.count = pick(random, 1, 6);
  if (uses.order && coin(random)) arguments.order = Order::kNearFirst;
  if (uses.radix && coin(random)) arguments.radix = pick(random, 2, 9);
  if (coin(random)) arguments.paths = random_paths(random, arguments.ranks);
  if (uses.shares && coin(random)) arguments.shares = random_shares(random);
  return arguments;
}

// Of what is drawn, the first that is taken.
AlgorithmArguments random_arguments(Random& random, const Algorithm& algorithm, int most_ranks) {
  const Collective collective = any_of(random, algorithm.collectives);
  for (int i = 0; i < 1000; ++i) {
    const AlgorithmArguments arguments = drawn_arguments(random, algorithm, collective, most_ranks);
    if (test::is_taken(algorithm, arguments)) return arguments;
  }
  ADD_FAILURE() << algorithm.name << " takes hardly any arguments for " << name(collective);
  return {};
}

std::string describe(const Algorithm& algorithm, const AlgorithmArguments& a) {
  const auto list = [](const std::vector<int>& values) {
    std::string text = "{";
    for (const int value : values) text += std::to_string(value) + " ";
    return text + "}";
  };
  std::string groups, links;
  for (const auto& group : a.groups) groups += list(group);
  for (const DeviceLink& it : a.links) links += join("{", it.a, ",", it.b, ",", it.gbps, "}");
  for (const RankPath& it : a.paths ? *a.paths : std::vector<RankPath>())
    links += join("{", it.from, ">", it.to, " by ", it.via, ",", it.gbps, "}");
  std::string levels;
  for (const PathShare& it : a.shares) levels += join(name(it.kind), ": ", it.share, " ");
  for (const Level& level : a.levels) levels += join(levels.empty() ? "" : ", ", to_text(level));
  return join(algorithm.name, " ", levels, " ", name(a.collective), " p=", a.ranks, " root=", a.root, " ",
              name(a.engine), " ", name(a.access), " nodes=", list(a.node_of), " groups=", groups,
              " factors=", list(a.factors), " ", name(a.direction), " ", name(a.order), " radix=", a.radix,
              " parts=", a.parts, " count=", a.count, " links=", links);
}

// ---- Execution on numbers ----

template <class T>
T input_value(Random& random) {
  if constexpr (std::is_integral_v<T>) {
    return pick(random, -1000, 1000);
  } else {
    return std::uniform_real_distribution<T>(-1, 1)(random);
  }
}

bool gives(const Plan& plan, int rank, int chunk) {
  const int block = chunk / plan.chunks_per_block;
  if (plan.collective == Collective::kBroadcast || plan.collective == Collective::kScatter) return rank == plan.root;
  if (plan.collective == Collective::kAllToAll) return block / plan.rank_count() == rank;
  return !gathers(plan.collective) || block == rank;
}

bool gets(const Plan& plan, int rank, int chunk) {
  const int block = chunk / plan.chunks_per_block;
  if (plan.collective == Collective::kReduce || plan.collective == Collective::kGather) return rank == plan.root;
  if (plan.collective == Collective::kAllToAll) return block % plan.rank_count() == rank;
  return !scatters(plan.collective) || block == rank;
}

// Runs the plan on integers and compares with a serial oracle, and on floating-point numbers, which have to be equal
// on all ranks that get them.
template <class T>
::testing::AssertionResult executes(const Plan& plan, bool in_place, Random& random) {
  constexpr int kWidth = test::Interpreter<T>::kWidth;
  test::Interpreter<T> interpreter(plan, in_place);
  std::vector<T> expected(plan.chunk_count() * kWidth, T{});
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    for (int i = 0; i < plan.chunk_count() * kWidth; ++i) {
      if (!gives(plan, rank, i / kWidth)) continue;
      const T value = input_value<T>(random);
      interpreter.input(rank, i / kWidth, i % kWidth) = value;
      expected[i] += value;
    }
  }
  interpreter.run(random);
  std::vector<T> first = expected;
  std::vector<bool> seen(expected.size(), std::is_integral_v<T>);  // integers compare with the oracle from the start
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    for (int i = 0; i < plan.chunk_count() * kWidth; ++i) {
      if (!gets(plan, rank, i / kWidth)) continue;
      const T value = interpreter.output(rank, i / kWidth, i % kWidth);
      if (!seen[i]) {
        if (std::abs(static_cast<double>(value - expected[i])) > 1e-9) {
          return ::testing::AssertionFailure() << "rank " << rank << " element " << i << " is far off";
        }
        first[i] = value;
        seen[i] = true;
      }
      if (value != first[i]) {
        return ::testing::AssertionFailure() << "rank " << rank << " element " << i << ": " << value << ", not "
                                             << first[i] << (in_place ? " (in place)" : "");
      }
    }
  }
  return ::testing::AssertionSuccess();
}

// ---- The tests ----

// What a plan is called is how to ask for it.
void expect_same_plan_by_its_name(const Plan& plan, const AlgorithmArguments& arguments) {
  const AlgorithmSpec spec = parse_spec(plan.algorithm, plan.collective);
  EXPECT_EQ(to_text(spec), plan.algorithm);
  AlgorithmArguments machine = arguments;
  machine.direction = Direction::kLoad;
  machine.access = Access::kStaged;
  machine.parts = 1;
  machine.count = 0;
  machine.order = Order::kFarFirst;
  machine.radix = 2;
  machine.factors.clear();
  machine.shares.clear();
  machine.levels.clear();
  if (machine.engine == Engine::kCopy) machine.engine = Engine::kSm;
  EXPECT_EQ(make_plan(plan.algorithm, machine), plan);
}

void check(const Algorithm& algorithm, const AlgorithmArguments& arguments, Random& random) {
  SCOPED_TRACE(describe(algorithm, arguments));
  const Plan plan = algorithm.make(arguments);
  EXPECT_EQ(plan, algorithm.make(arguments)) << "not a pure function";
  EXPECT_EQ(plan.collective, arguments.collective);
  EXPECT_EQ(plan.access, arguments.access);
  EXPECT_EQ(plan.in_place, documented_in_place(test::form_of(algorithm, arguments), arguments));
  const VerifiedPlan verified = verify(plan);
  EXPECT_FALSE(verified.report().unread_store) << to_text(verified.report().unread_store.value_or(OperationId()));
  const test::Steps steps = documented_steps(test::form_of(algorithm, arguments), arguments, plan);
  if (steps.exact) {
    EXPECT_EQ(verified.report().steps, steps.count);
  } else {
    EXPECT_LE(verified.report().steps, steps.count);
  }
  if (algorithm.name == "nvgroup_ring") {
    check_nvgroup_traffic(arguments, verified);
  } else if (algorithm.name == "max_flow") {
    test::check_flow_traffic(arguments, verified);
  } else {
    EXPECT_EQ(crossings(verified.report()), documented_crossings(test::form_of(algorithm, arguments), arguments, plan));
  }
  expect_same_plan_by_its_name(plan, arguments);
  for (const bool in_place : {false, true}) {
    if (in_place && !plan.in_place) continue;
    EXPECT_TRUE(executes<int64_t>(plan, in_place, random));
    EXPECT_TRUE(executes<double>(plan, in_place, random));
  }
}

std::vector<uint64_t> seeds() {
  if (const char* given = std::getenv("PLAIT_TEST_SEED")) return {std::strtoull(given, nullptr, 10)};
  return {1, 2, 3, std::random_device{}()};
}

class EveryAlgorithm : public ::testing::TestWithParam<size_t> {};

TEST_P(EveryAlgorithm, RandomArguments) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  for (const uint64_t seed : seeds()) {
    SCOPED_TRACE(join("PLAIT_TEST_SEED=", seed));
    std::cout << algorithm.name << ": PLAIT_TEST_SEED=" << seed << "\n";
    Random random(seed);
    for (int i = 0; i < test::times_to_try(60); ++i) {
      ASSERT_NO_FATAL_FAILURE(check(algorithm, random_arguments(random, algorithm, 24), random));
      if (HasFailure()) return;
    }
  }
}

// One node, nodes of four, groups, and two groups; all but the nodes with links in a circle and across it, and with
// paths through host memory and by way of another rank.
std::vector<AlgorithmArguments> machines_of(int ranks) {
  AlgorithmArguments near, far;
  near.ranks = far.ranks = ranks;
  near.root = far.root = ranks / 2;
  for (int rank = 0; rank < ranks; ++rank) far.node_of.push_back(rank / 4);
  far.engine = Engine::kSm;
  for (int a = 0; a < ranks && ranks <= kMostLinkedRanks; ++a) {
    for (int b = a + 1; b < ranks; ++b) {
      if (b == a + 1 || b == a + ranks - 1 || b == a + ranks / 2) near.links.push_back({a, b, 25});
    }
  }
  if (ranks <= kMostLinkedRanks) near.paths.emplace();
  for (int from = 0; from < ranks && near.paths; ++from) {
    for (int d = 1; d < ranks; ++d) {
      const int to = (from + d) % ranks, via = (to + 1) % ranks;
      near.paths->push_back({from, to, PathKind::kDirect, -1, 50, 50});
      near.paths->push_back({from, to, PathKind::kHost, -1, 15, 15});
      if (via != from) near.paths->push_back({from, to, PathKind::kRelay, via, 50, 50});
    }
  }
  AlgorithmArguments grouped = near;
  if (ranks > 3) grouped.groups = {{0, 2}, {1}, {3}};
  for (int rank = 4; rank < ranks; ++rank) grouped.groups[rank % 3].push_back(rank);
  AlgorithmArguments halves = near;
  if (ranks > 1) halves.groups.resize(2);
  for (int rank = 0; rank < ranks && ranks > 1; ++rank) halves.groups[2 * rank / ranks].push_back(rank);
  return {near, far, grouped, halves};
}

// Candidates are made without a refusal, so few that all can be tried, and no two of them are alike.
TEST_P(EveryAlgorithm, CandidatesOfEveryNumberOfRanks) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  const int most_ranks = test::kSanitized ? 8 : 64;
  int tried = 0;
  for (const Collective collective : algorithm.collectives) {
    for (int ranks = 1; ranks <= most_ranks; ranks += ranks < 20 ? 1 : 11) {
      for (AlgorithmArguments machine : machines_of(ranks)) {
        for (const Access access : {Access::kStaged, Access::kZeroCopy}) {
          machine.collective = collective;
          machine.access = access;
          const std::vector<AlgorithmArguments> candidates = algorithm.candidates(machine);
          EXPECT_LE(candidates.size(), 10U) << describe(algorithm, machine);
          for (const AlgorithmArguments& candidate : candidates) {
            if (ranks > 8 && &candidate != &candidates.front() && &candidate != &candidates.back()) continue;
            SCOPED_TRACE(describe(algorithm, candidate));
            EXPECT_EQ(std::count(candidates.begin(), candidates.end(), candidate), 1);
            EXPECT_EQ(candidate.access, access);
            ASSERT_NO_THROW(algorithm.make(candidate));
            const VerifiedPlan plan = verify(algorithm.make(candidate));
            EXPECT_LE(plan.report().steps,
                      documented_steps(test::form_of(algorithm, candidate), candidate, plan.plan()).count);
            ++tried;
            if (HasFailure()) return;
          }
        }
      }
    }
  }
  EXPECT_GT(tried, test::kSanitized ? 5 : 20);  // with fewer ranks there are fewer
}

TEST_P(EveryAlgorithm, HundredsOfRanksVerifyInSeconds) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  AlgorithmArguments machine = machines_of(128)[1];
  machine.collective = algorithm.collectives[0];
  if (algorithm.candidates(machine).empty()) machine.node_of.clear();
  if (algorithm.candidates(machine).empty()) GTEST_SKIP() << "for at most " << kMostLinkedRanks << " ranks";
  const std::clock_t start = std::clock();  // of this process: other load on the machine does not count
  const VerifiedPlan plan = verify(algorithm.make(algorithm.candidates(machine).at(0)));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::cout << plan.plan().algorithm << " of 128 ranks: " << plan.report().steps << " steps, made and verified in "
            << seconds << " s\n";
  EXPECT_LT(seconds, 5.0);
}

// In an odd number of parts, where the algorithm takes that; else in one.
std::vector<AlgorithmArguments> forms_in_odd_parts(const Algorithm& algorithm, const AlgorithmArguments& machine) {
  std::vector<AlgorithmArguments> forms = test::forms_of(algorithm, machine, {machine.ranks % 2 == 0 ? 3 : 5});
  return forms.empty() ? test::forms_of(algorithm, machine) : forms;
}

// Numbers of ranks that are powers of two, next to one, primes, and neither.
TEST_P(EveryAlgorithm, IsProvedForManyNumbersOfRanks) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  std::vector<int> numbers(test::kSanitized ? 17 : 33);
  std::iota(numbers.begin(), numbers.end(), 1);
  if (!test::kSanitized) numbers.insert(numbers.end(), {48, 64, 96, 128});
  int proved = 0;
  for (const int ranks : numbers) {
    for (const Collective collective : algorithm.collectives) {
      for (AlgorithmArguments machine : machines_of(ranks)) {
        machine.collective = collective;
        for (const AlgorithmArguments& form : forms_in_odd_parts(algorithm, machine)) {
          SCOPED_TRACE(describe(algorithm, form));
          ASSERT_NO_THROW(verify(algorithm.make(form)));
          ++proved;
        }
      }
    }
  }
  std::cout << algorithm.name << ": " << proved << " plans\n";
  EXPECT_GE(proved, static_cast<int>(std::min<size_t>(kMostLinkedRanks, numbers.size())));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm, ::testing::Range(size_t{0}, algorithms().size()),
                         [](const auto& info) { return std::string(algorithms()[info.param].name); });

// The interpreter has to notice a plan that does not wait, or the tests above mean nothing.
TEST(Interpreter, NoticesMissingWaits) {
  for (const char* algorithm : {"ring", "one_shot", "recursive_doubling", "three_stage"}) {
    AlgorithmArguments arguments;
    arguments.ranks = 6;
    arguments.groups = {{0, 1, 2}, {3, 4, 5}};
    Plan plan = make_plan(algorithm, arguments);
    for (RankPlan& rank : plan.ranks) {
      for (Queue& queue : rank.queues) {
        std::erase_if(queue.operations, [](const Operation& o) { return o.kind == OpKind::kWait; });
      }
    }
    Random random(3);
    int failures = 0;
    for (int i = 0; i < 10; ++i) failures += executes<int64_t>(plan, false, random) ? 0 : 1;
    EXPECT_GT(failures, 0) << algorithm;
    EXPECT_THROW(verify(plan), Error) << algorithm;
  }
}

TEST(Interpreter, NoticesDeadlock) {
  AlgorithmArguments arguments;
  arguments.ranks = 2;
  Plan plan = make_plan("one_shot", arguments);
  std::erase_if(plan.ranks[0].queues[0].operations, [](const Operation& o) { return o.kind == OpKind::kSignal; });
  Random random(3);
  EXPECT_THROW((void)executes<int64_t>(plan, false, random), std::runtime_error);
}

}  // namespace
}  // namespace plait
