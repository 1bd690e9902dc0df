// Random plans of every algorithm: verified, counted against the documented formulas, made twice, and executed on
// numbers by an interpreter that knows nothing of the verifier.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <numeric>
#include <random>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "plan/text.hpp"
#include "plan/verifier.hpp"
#include "property/interpreter.hpp"

namespace plait {
namespace {

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

// Load and store have to reach from every rank to every other.
bool stays_on_one_node(const Algorithm& algorithm) {
  const std::string_view name = algorithm.name;
  return name == "flat" || name == "one_shot" || name == "push" || name == "one_shot_push" || name == "chain_push" ||
         name == "pull";
}

// Reads other ranks' buffers, whatever else there is.
bool always_peer(const Algorithm& algorithm) { return algorithm.name == "pull"; }

Engine random_engine(Random& random, const Algorithm& algorithm) {
  if (algorithm.name == "pull" && coin(random)) return Engine::kCopy;
  return coin(random) ? Engine::kSm : Engine::kCpu;
}

AlgorithmArguments random_arguments(Random& random, const Algorithm& algorithm, int most_ranks) {
  AlgorithmArguments arguments;
  arguments.collective = algorithm.collectives[pick(random, 0, static_cast<int>(algorithm.collectives.size()) - 1)];
  arguments.ranks = pick(random, 1, most_ranks);
  arguments.root = pick(random, 0, arguments.ranks - 1);
  arguments.engine = random_engine(random, algorithm);
  arguments.reach = coin(random) || always_peer(algorithm) ? Reach::kPeer : Reach::kStaged;
  arguments.pipeline = coin(random) ? 1 : pick(random, 1, 7);
  const bool one_node = stays_on_one_node(algorithm) || arguments.collective == Collective::kBarrier;
  if (!one_node && coin(random)) arguments.node_of = random_nodes(random, arguments.ranks);
  if (one_node && coin(random)) arguments.node_of.assign(arguments.ranks, 7);
  const bool within_nodes = algorithm.name == "nvgroup_ring";
  if (coin(random)) arguments.groups = random_groups(random, arguments, within_nodes);
  if (coin(random)) arguments.factors = random_factors(random, arguments.ranks);
  return arguments;
}

std::string describe(const Algorithm& algorithm, const AlgorithmArguments& a) {
  const auto list = [](const std::vector<int>& values) {
    std::string text = "{";
    for (const int value : values) text += std::to_string(value) + " ";
    return text + "}";
  };
  std::string groups;
  for (const auto& group : a.groups) groups += list(group);
  return join(algorithm.name, " ", name(a.collective), " p=", a.ranks, " root=", a.root, " ", name(a.engine), " ",
              name(a.reach), " nodes=", list(a.node_of), " groups=", groups, " factors=", list(a.factors),
              " pipeline=", a.pipeline);
}

// ---- The documented formulas ----

bool together(const AlgorithmArguments& a, int x, int y) { return a.node_of.empty() || a.node_of[x] == a.node_of[y]; }

bool on_one_node(const AlgorithmArguments& a) {
  for (int rank = 0; rank < a.ranks; ++rank) {
    if (!together(a, rank, 0)) return false;
  }
  return true;
}

// The groups that the algorithms use.
std::vector<std::vector<int>> groups_of(const AlgorithmArguments& a) {
  if (!a.groups.empty()) return a.groups;
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < a.ranks; ++rank) {
    auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return together(a, g[0], rank); });
    if (it == groups.end()) it = groups.insert(groups.end(), std::vector<int>{});
    it->push_back(rank);
  }
  return groups;
}

bool equal_sizes(const std::vector<std::vector<int>>& groups) {
  return std::all_of(groups.begin(), groups.end(), [&](const auto& g) { return g.size() == groups[0].size(); });
}

int floor_log2(int number) { return std::bit_width(static_cast<unsigned>(number)) - 1; }

// The factors that a plan names: "hierarchical_ring(4x2, pipeline 3)".
std::vector<int> factors_in(const std::string& label) {
  std::vector<int> factors;
  size_t at = label.find('(');
  while (at != std::string::npos && at + 1 < label.size()) {
    factors.push_back(std::atoi(label.c_str() + at + 1));
    const size_t end = label.find_first_of(",)", at + 1);
    at = label.find('x', at + 1);
    if (at != std::string::npos && at > end) break;
  }
  return factors;
}

int flat_steps(const AlgorithmArguments& a) {
  const bool peer = a.reach == Reach::kPeer;
  switch (a.collective) {
    case Collective::kAllReduce:
      return peer ? 2 : 2 + 2 * (a.pipeline - 1) / 3;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return peer ? 2 : 1;
    case Collective::kReduce:
      return 2;
    case Collective::kBroadcast:
      return !peer && a.ranks == 2 ? 1 : 2;
    case Collective::kBarrier:
      return 1;
    default:
      return -1;
  }
}

struct Steps {
  int count = 0;
  bool exact = true;  // else the most
};

Steps documented_steps(std::string_view algorithm, const AlgorithmArguments& a, const Plan& plan) {
  const int p = a.ranks;
  const int peer = a.reach == Reach::kPeer ? 1 : 0;
  if (p == 1) return {0};
  if (algorithm == "ring") {
    if (a.collective == Collective::kAllReduce) return {2 * (p - 1)};
    int calls = 0;
    for (int rank = 0; rank < p; ++rank) calls |= together(a, rank, (rank + 1) % p) ? peer : 0;
    return {p - 1 + (a.collective == Collective::kAllGather ? calls : 0)};
  }
  if (algorithm == "hierarchical_ring") {
    int steps = 0;
    for (const int factor : factors_in(plan.algorithm)) steps += 2 * (factor - 1);
    return {steps};
  }
  if (algorithm == "recursive_doubling") {
    const int extras = p - (1 << floor_log2(p));
    return {floor_log2(p) + (extras > 0 ? 1 : 0) + (2 * extras > 1 << floor_log2(p) ? 1 : 0)};
  }
  if (algorithm == "one_shot" || algorithm == "one_shot_push") return {1};
  if (algorithm == "push") {
    const bool by_owners = a.collective == Collective::kReduce || a.collective == Collective::kBroadcast;
    const bool two_stages = a.collective == Collective::kAllReduce || (by_owners && p > 2);
    return {two_stages ? 2 : 1};
  }
  if (algorithm == "flat") return {flat_steps(a)};
  if (algorithm == "pull") return {2};
  if (algorithm == "chain_push") return {p - 1};
  if (algorithm == "chain") return {p - 1 + peer, on_one_node(a) || peer == 0};
  if (algorithm == "binomial") {
    if (on_one_node(a)) return {floor_log2(p) + peer};
    AlgorithmArguments by_node = a;
    by_node.groups.clear();
    const auto nodes = groups_of(by_node);
    int largest = 0;
    for (const auto& node : nodes) largest = std::max(largest, static_cast<int>(node.size()));
    return {floor_log2(static_cast<int>(nodes.size())) + floor_log2(largest) + peer, false};
  }
  const auto groups = groups_of(a);
  const int count = static_cast<int>(groups.size());
  const int largest = static_cast<int>(
      std::max_element(groups.begin(), groups.end(), [](auto& x, auto& y) { return x.size() < y.size(); })->size());
  if (algorithm == "three_stage") {
    const int rounds = (a.pipeline + 2) / 3;
    const int steps = rounds * 2 * (count - 1) + (largest > 1 ? 2 : 0);
    return {on_one_node(a) ? steps : a.pipeline * (2 * (count - 1) + 2), on_one_node(a) && equal_sizes(groups)};
  }
  if (algorithm == "nvgroup_ring") {
    if (count == 1) return {flat_steps(a)};
    if (largest == 1) return {2 * (count - 1)};
    return {4 * count - 1 + peer, equal_sizes(groups)};
  }
  ADD_FAILURE() << "no formula for " << algorithm;
  return {};
}

// Chunks that cross between ranks, all ranks together.
int64_t documented_crossings(std::string_view algorithm, const AlgorithmArguments& a, const Plan& plan) {
  const int64_t p = a.ranks, parts = a.pipeline;
  const bool peer = a.reach == Reach::kPeer;
  if (algorithm == "ring") return (a.collective == Collective::kAllReduce ? 2 : 1) * p * (p - 1) * parts;
  if (algorithm == "hierarchical_ring") {
    int64_t chunks = 0, piece = p;
    for (const int factor : factors_in(plan.algorithm)) chunks += 2 * p * (factor - 1) * (piece /= factor) * parts;
    EXPECT_EQ(chunks, 2 * p * (p - 1) * parts);  // the same volume for every factor list
    return chunks;
  }
  if (algorithm == "recursive_doubling") {
    if (a.collective == Collective::kBarrier) return 0;
    const int64_t core = std::bit_floor(static_cast<unsigned>(p));
    return core * floor_log2(a.ranks) + 2 * (p - core);
  }
  if (algorithm == "one_shot") return p * (p - 1);
  if (algorithm == "one_shot_push") return (a.collective == Collective::kAllReduce ? p : 1) * (p - 1);
  if (algorithm == "push") {
    if (a.collective == Collective::kBarrier) return 0;
    if (a.collective == Collective::kBroadcast) return (p - 1) * (p - 1);
    if (a.collective == Collective::kReduce && p == 2) return 1;
    if (a.collective == Collective::kReduce && a.pipeline == 1) return (p + 1) * (p - 1);
    if (a.collective == Collective::kGather || a.collective == Collective::kScatter) return p - 1;
    return (a.collective == Collective::kAllReduce ? 2 : 1) * p * (p - 1);
  }
  if (algorithm == "chain" || algorithm == "chain_push" || algorithm == "binomial") return (p - 1) * parts;
  if (algorithm == "pull") {
    return (a.collective == Collective::kAllGather || a.collective == Collective::kAllToAll ? p : 1) * (p - 1);
  }
  if (algorithm == "flat") {
    switch (a.collective) {
      case Collective::kAllReduce:
        return 2 * p * (p - 1) * (peer ? 1 : parts);
      case Collective::kReduceScatter:
      case Collective::kAllGather:
        return p * (p - 1);
      case Collective::kReduce:
        return p * (p - 1) + (p - 1);
      case Collective::kBroadcast:
        return (p - 1) * (p - 1);
      default:  // a barrier
        return 0;
    }
  }
  const int64_t groups = static_cast<int64_t>(groups_of(a).size());
  if (algorithm == "three_stage") return parts * groups * (2 * (p - groups) + 2 * (groups - 1));
  return -1;  // nvgroup_ring: see check_nvgroup_traffic
}

// Whether the plan is right where input and output are the same memory.
bool documented_in_place(std::string_view algorithm, const AlgorithmArguments& a) {
  if (algorithm != "pull" || a.ranks == 1 || a.collective == Collective::kGather ||
      a.collective == Collective::kScatter) {
    return true;
  }
  return a.collective != Collective::kAllToAll && a.engine != Engine::kCpu;
}

int64_t crossings(const PlanReport& report) {
  int64_t chunks = 0;
  for (const Traffic& traffic : report.traffic) chunks += traffic.from.rank == traffic.to.rank ? 0 : traffic.chunks;
  return chunks;
}

// Per group: what crosses between members, into the leader's host memory, and out of it.
void check_nvgroup_traffic(const AlgorithmArguments& a, const VerifiedPlan& plan) {
  const auto groups = groups_of(a);
  const int64_t count = static_cast<int64_t>(groups.size());
  const int64_t all = plan.plan().chunk_count();
  const int64_t peer = a.reach == Reach::kPeer ? 1 : 0;
  if (count == 1) {
    EXPECT_EQ(crossings(plan.report()), documented_crossings("flat", a, plan.plan()));
    return;
  }
  for (int64_t g = 0; g < count; ++g) {
    const auto& group = groups[g];
    const int64_t n = static_cast<int64_t>(group.size());
    const auto inside = [&](int rank) { return std::find(group.begin(), group.end(), rank) != group.end(); };
    int64_t among_members = 0, to_host = 0, arrived = 0, from_host = 0;
    for (const Traffic& it : plan.report().traffic) {
      const bool to_ours = it.to.host && it.to.rank == group[0];
      if (to_ours) (inside(it.from.rank) ? to_host : arrived) += it.chunks;
      if (it.from.host && it.from.rank == group[0]) from_host += it.chunks;
      if (!it.to.host && !it.from.host && inside(it.to.rank)) among_members += it.chunks;
    }
    EXPECT_EQ(among_members, (1 + peer) * (n - 1) * all);
    EXPECT_EQ(to_host, all);
    EXPECT_EQ(arrived, 2 * (count - 1) * all / count);
    EXPECT_EQ(from_host, 3 * (count - 1) * all / count + (peer == 1 ? 1 : n) * all);
  }
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

void check(const Algorithm& algorithm, const AlgorithmArguments& arguments, Random& random) {
  SCOPED_TRACE(describe(algorithm, arguments));
  const Plan plan = algorithm.make(arguments);
  EXPECT_EQ(plan, algorithm.make(arguments)) << "not a pure function";
  EXPECT_EQ(plan.collective, arguments.collective);
  EXPECT_EQ(plan.reach, arguments.reach);
  EXPECT_EQ(plan.in_place, documented_in_place(algorithm.name, arguments));
  const VerifiedPlan verified = verify(plan);
  const Steps steps = documented_steps(algorithm.name, arguments, plan);
  if (steps.exact) {
    EXPECT_EQ(verified.report().steps, steps.count);
  } else {
    EXPECT_LE(verified.report().steps, steps.count);
  }
  if (algorithm.name == "nvgroup_ring") {
    check_nvgroup_traffic(arguments, verified);
  } else {
    EXPECT_EQ(crossings(verified.report()), documented_crossings(algorithm.name, arguments, plan));
  }
  if (algorithm.name == "pull") {
    for (const RankPlan& rank : plan.ranks) EXPECT_EQ(rank.scratch_slots, 0);
  }
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
    for (int i = 0; i < 60; ++i) {
      ASSERT_NO_FATAL_FAILURE(check(algorithm, random_arguments(random, algorithm, 24), random));
      if (HasFailure()) return;
    }
  }
}

TEST_P(EveryAlgorithm, EveryNumberOfRanksEveryCollectiveBothReaches) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  Random random(5);
  for (const Collective collective : algorithm.collectives) {
    for (const Reach reach : {Reach::kStaged, Reach::kPeer}) {
      if (reach == Reach::kStaged && always_peer(algorithm)) continue;
      for (int ranks = 1; ranks <= 64; ranks += ranks < 20 ? 1 : 11) {
        AlgorithmArguments arguments;
        arguments.collective = collective;
        arguments.ranks = ranks;
        arguments.root = ranks / 2;
        arguments.reach = reach;
        if (algorithm.name == "nvgroup_ring" && ranks > 3) arguments.groups = random_groups(random, arguments, false);
        SCOPED_TRACE(describe(algorithm, arguments));
        const VerifiedPlan plan = verify(algorithm.make(arguments));
        EXPECT_LE(plan.report().steps, documented_steps(algorithm.name, arguments, plan.plan()).count);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(EveryAlgorithm, HundredsOfRanksVerifyInSeconds) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  AlgorithmArguments arguments;
  arguments.collective = algorithm.collectives[0];
  arguments.ranks = 128;
  if (always_peer(algorithm)) arguments.reach = Reach::kPeer;
  if (algorithm.name == "hierarchical_ring") arguments.factors = {4, 8, 4};
  if (!stays_on_one_node(algorithm)) {
    for (int rank = 0; rank < arguments.ranks; ++rank) arguments.node_of.push_back(rank / 4);
  }
  const std::clock_t start = std::clock();  // of this process: other load on the machine does not count
  const VerifiedPlan plan = verify(algorithm.make(arguments));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::cout << plan.plan().algorithm << " of 128 ranks: " << plan.report().steps << " steps, made and verified in "
            << seconds << " s\n";
  EXPECT_LT(seconds, 5.0);
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
      for (Lane& lane : rank.lanes) {
        std::erase_if(lane.operations, [](const Operation& o) { return o.kind == OpKind::kWait; });
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
  std::erase_if(plan.ranks[0].lanes[0].operations, [](const Operation& o) { return o.kind == OpKind::kSignal; });
  Random random(3);
  EXPECT_THROW((void)executes<int64_t>(plan, false, random), std::runtime_error);
}

}  // namespace
}  // namespace plait
