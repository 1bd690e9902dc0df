// What the comments above each algorithm promise: steps, chunks that cross between ranks, and whether it may run in
// place.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/spec.hpp"
#include "algorithms/steps/levels.hpp"
#include "algorithms/steps/units.hpp"
#include "plan/verifier.hpp"

namespace plait::test {

inline bool together(const AlgorithmArguments& a, int x, int y) {
  return a.node_of.empty() || a.node_of[x] == a.node_of[y];
}

inline bool on_one_node(const AlgorithmArguments& a) {
  for (int rank = 0; rank < a.ranks; ++rank) {
    if (!together(a, rank, 0)) return false;
  }
  return true;
}

// The groups that the algorithms use.
inline std::vector<std::vector<int>> groups_of(const AlgorithmArguments& a) {
  if (!a.groups.empty()) return a.groups;
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < a.ranks; ++rank) {
    auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return together(a, g[0], rank); });
    if (it == groups.end()) it = groups.insert(groups.end(), std::vector<int>{});
    it->push_back(rank);
  }
  return groups;
}

inline bool equal_sizes(const std::vector<std::vector<int>>& groups) {
  return std::all_of(groups.begin(), groups.end(), [&](const auto& g) { return g.size() == groups[0].size(); });
}

inline int floor_log2(int number) { return std::bit_width(static_cast<unsigned>(number)) - 1; }

// The most digits other than 0 that a number below `count` has, to base `radix`.
inline int digits_below(int count, int radix) {
  int digits = 0;
  for (int64_t ones = 1; ones < count; ones = ones * radix + 1) ++digits;
  return digits;
}

inline int digits_of(size_t number, int radix) {
  int digits = 0;
  for (; number > 0; number /= radix) digits += number % radix == 0 ? 0 : 1;
  return digits;
}

inline int ceil_log2(int number) { return std::bit_width(static_cast<unsigned>(number - 1)); }

// How costs are told apart: "ring", "flat(store)", "flat(load, zero_copy)".
inline std::string form_of(const Algorithm& algorithm, const AlgorithmArguments& a) {
  AlgorithmSpec spec = spec_of(algorithm, a);
  spec.factors.clear();
  spec.levels.clear();
  spec.order.reset();
  spec.radix = 0;
  spec.parts = 0;
  spec.count = 0;
  spec.shares.clear();
  spec.engine.reset();
  spec.zero_copy = spec.zero_copy && algorithm.name == "flat";
  return to_text(spec);
}

// The factors that a plan names: "hierarchical_ring(4x2, parts=3)".
inline std::vector<int> factors_in(const std::string& label) {
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

// The ranks that halve, and how many factors above 1 their number has: twos unless others are given.
struct Core {
  int64_t ranks = 1;
  int factors = 0;
};

inline Core core_of(const AlgorithmArguments& a) {
  Core core;
  if (a.factors.empty()) return {int64_t{1} << floor_log2(a.ranks), floor_log2(a.ranks)};
  for (const int factor : a.factors) {
    core.ranks *= factor;
    core.factors += factor > 1 ? 1 : 0;
  }
  return core;
}

inline int flat_steps(const AlgorithmArguments& a) {
  const bool peer = a.access == Access::kZeroCopy;
  switch (a.collective) {
    case Collective::kAllReduce:
      return peer ? 2 : 2 + 2 * (a.parts - 1) / 3;
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

// A level of a hierarchy, as its plan's name has it: members of the largest list, and of each block's.
struct LevelCounts {
  Level level;
  int members = 1;
  std::vector<int> blocks;
  bool last = false;
  bool whole() const { return level.all_reduce || (!last && find_level_algorithm(level.algorithm).whole); }
};

inline std::vector<LevelCounts> levels_in(const AlgorithmArguments& a, const std::vector<Level>& levels) {
  std::vector<LevelCounts> all;
  for (const auto& blocks : blocks_of(find_algorithm("hierarchical", a.collective), a, levels)) {
    LevelCounts& it = all.emplace_back();
    it.level = levels[all.size() - 1];
    it.last = all.size() == levels.size();
    for (const Units& block : blocks) it.blocks.push_back(static_cast<int>(block.size()));
    it.members = *std::max_element(it.blocks.begin(), it.blocks.end());
  }
  return all;
}

// How far ranks are below the leader of the list. In an all-reduce, or by trees.
inline int depth(const LevelCounts& it) {
  if (it.level.algorithm == "flat") return it.members > 1 ? 1 : 0;
  if (it.level.algorithm == "double_binary_tree") return floor_log2(it.members);
  return it.level.algorithm == "binomial" ? digits_below(it.members, it.level.radix) : it.members - 1;
}

// Up or down: one half of an all-reduce.
inline int most_steps_of_half(const LevelCounts& it) {
  const int core = floor_log2(it.members), extras = it.members - (1 << core);
  return it.level.algorithm == "rabenseifner" ? core + (extras > 0 ? 2 : 0) : depth(it);
}

// Up and down again. Where leaders store to their members' memory, these wait for one more signal.
inline int most_steps(const LevelCounts& it, bool zero_copy) {
  const int core = floor_log2(it.members), extras = it.members - (1 << core);
  if (it.level.algorithm == "recursive_doubling") return core + (extras > 0 ? 2 : 0);
  if (it.level.algorithm == "rabenseifner") return 2 * core + (extras > 0 ? 4 : 0);
  const bool stores_to_peers = zero_copy || it.whole();
  const bool tells_members = it.level.algorithm == "flat" && it.members > 1 && stores_to_peers;
  return 2 * depth(it) + (tells_members ? 1 : 0);
}

inline bool inner_levels_lie_on_nodes(const AlgorithmArguments& a, const std::vector<Level>& levels) {
  auto blocks = blocks_of(find_algorithm("hierarchical", a.collective), a, levels);
  blocks.pop_back();
  for (const auto& of_level : blocks) {
    for (const Units& units : of_level) {
      for (const auto& unit : units) {
        if (!together(a, unit[0], units[0][0])) return false;
      }
    }
  }
  return true;
}

inline bool scatters(const LevelCounts& it) { return it.level.algorithm.starts_with("scatter_"); }

// Of a broadcast, and of a reduce, which goes along the same trees.
inline int steps_of_rooted(const LevelCounts& it) {
  const int n = it.members;
  if (n == 1) return 0;
  if (it.level.algorithm == "double_binary_tree") return n == 2 ? 1 : floor_log2(n - 1) + 1;
  if (!scatters(it)) return depth(it);
  if (it.level.algorithm == "scatter_ring") return floor_log2(n) + n - 1;
  return 2 * floor_log2(n) + (std::has_single_bit(static_cast<unsigned>(n)) ? 0 : 2);
}

// A level of one tree passes on what comes. Others have more to do at a time, part by part, and one after the other
// if messages of an inner level pass between nodes.
inline int most_steps_of_broadcast(const AlgorithmArguments& a, const std::vector<Level>& levels) {
  const int calls = a.access == Access::kZeroCopy ? 1 : 0;
  int steps = 0;
  bool streams = true;
  for (const LevelCounts& it : levels_in(a, levels)) {
    steps += steps_of_rooted(it);
    streams = streams && !scatters(it) && it.level.algorithm != "double_binary_tree";
  }
  if (streams) return steps + calls;
  return inner_levels_lie_on_nodes(a, levels) ? a.parts * steps + calls : std::numeric_limits<int>::max();
}

// Pieces of scattered levels travel down a binomial tree, and then go from each member but the last to the next, or
// from those that have several to those that lack them. Nobody gives anything to the first.
inline int64_t moved_by_broadcast(const LevelCounts& it, int64_t n, int64_t chunks) {
  if (!scatters(it)) return (n - 1) * chunks;
  int64_t pieces = (n - 1) * (n - 1);
  for (int64_t x = 0; x < n; ++x) pieces += digits_of(static_cast<size_t>(x), 2);
  return pieces * (chunks / n);
}

// If messages of an inner level pass between nodes, those of a rank's several lists come one after the other, and there
// is no promise.
inline int most_steps(const AlgorithmArguments& a, const std::vector<Level>& levels) {
  if (a.collective == Collective::kBroadcast) return most_steps_of_broadcast(a, levels);
  if (has_root(a.collective)) {
    int steps = a.access == Access::kZeroCopy ? 1 : 0;
    for (const LevelCounts& it : levels_in(a, levels)) steps += steps_of_rooted(it);
    return steps;
  }
  if (!inner_levels_lie_on_nodes(a, levels)) return std::numeric_limits<int>::max();
  int steps = 0;
  for (const LevelCounts& it : levels_in(a, levels)) {
    steps += has_rank_blocks(a.collective) ? most_steps_of_half(it) : most_steps(it, a.access == Access::kZeroCopy);
  }
  return a.parts * steps;
}

// Chunks that n units move to combine a message, there and back. Whatever the algorithm, n - 1 times the message each
// way, but recursive doubling moves whole sums, and Rabenseifner's algorithm the pieces of extra members once more.
inline int64_t moved_by(const LevelCounts& it, int64_t n, int64_t chunks) {
  const int64_t doublings = floor_log2(static_cast<int>(n)), core = int64_t{1} << doublings;
  if (it.level.algorithm == "recursive_doubling") return (core * doublings + 2 * (n - core)) * chunks;
  const int64_t again = it.level.algorithm == "rabenseifner" ? (n - core) * chunks / n : 0;
  return 2 * (n - 1) * chunks + again;
}

// All ranks together. Down or up a tree, the message crosses each edge. After an all-reduce every member works for the
// whole unit on the next level.
inline int64_t chunks_moved(const AlgorithmArguments& a, const std::vector<Level>& levels, int64_t chunks) {
  if (a.collective == Collective::kReduce || a.collective == Collective::kAllGather) return (a.ranks - 1) * chunks;
  int64_t moved = 0, copies = 1;
  if (a.collective == Collective::kBroadcast) {
    for (const LevelCounts& it : levels_in(a, levels)) {
      for (const int members : it.blocks) moved += moved_by_broadcast(it, members, chunks);
    }
    return moved;
  }
  for (const LevelCounts& it : levels_in(a, levels)) {
    for (const int members : it.blocks) {
      const int64_t down = a.collective == Collective::kReduceScatter ? (members - 1) * chunks : 0;
      moved += copies * (moved_by(it, members, chunks) - down);
    }
    if (it.whole()) copies *= it.members;
  }
  return moved;
}

inline std::vector<Level> levels_of_plan(const Plan& plan) {
  return parse_spec(plan.algorithm, plan.collective).levels;
}

// The part of a message that goes by way of other ranks: so many of the units that all shares are.
struct Relayed {
  int64_t units = 0, of = 0;
};

inline Relayed relayed_in(const Plan& plan) {
  Relayed relayed;
  for (const PathShare& it : parse_spec(plan.algorithm, plan.collective).shares) {
    relayed.units += it.kind == PathKind::kRelay ? it.share : 0;
    relayed.of += it.share;
  }
  return relayed;
}

// How far ranks are below the root of a binomial tree: one tree joins the nodes, and others the ranks of each.
inline int binomial_depth(const AlgorithmArguments& a) {
  if (on_one_node(a)) return digits_below(a.ranks, a.radix);
  AlgorithmArguments by_node = a;
  by_node.groups.clear();
  const auto nodes = groups_of(by_node);
  int largest = 0;
  for (const auto& node : nodes) largest = std::max(largest, static_cast<int>(node.size()));
  return digits_below(static_cast<int>(nodes.size()), a.radix) + digits_below(largest, a.radix);
}

struct Steps {
  int count = 0;
  bool exact = true;  // else the most
};

inline Steps documented_steps(std::string_view algorithm, const AlgorithmArguments& a, const Plan& plan) {
  const int p = a.ranks;
  const int peer = a.access == Access::kZeroCopy ? 1 : 0;
  if (p == 1) return {0};
  if (algorithm == "ring") {
    if (a.collective == Collective::kAllReduce) return {2 * (p - 1)};
    int calls = 0;
    for (int rank = 0; rank < p; ++rank) calls |= together(a, rank, (rank + 1) % p) ? peer : 0;
    return {p - 1 + (a.collective == Collective::kAllGather ? calls : 0)};
  }
  if (algorithm == "host_staged" || algorithm.starts_with("naive_ring(")) return {2 * (p - 1)};  // TEM-12, NVG-25
  if (algorithm == "hierarchical_ring") {
    int steps = 0;
    for (const int factor : factors_in(plan.algorithm)) steps += 2 * (factor - 1);
    return {steps};
  }
  if (algorithm == "hierarchical") return {most_steps(a, levels_of_plan(plan)), false};
  if (algorithm == "rabenseifner") {
    const Core core = core_of(a);
    const int64_t extras = p - core.ranks;
    if (a.collective == Collective::kAllReduce) return {2 * core.factors + (extras > 0 ? 2 : 0)};
    // With factors of two, a path leads through all rounds from a rank to the one of reversed bits only.
    const bool twos = a.factors.empty();
    const int calls = a.collective == Collective::kAllGather ? peer : 0;
    const int folds = extras == 0 ? 0 : twos && 2 * extras <= core.ranks ? 1 : 2;
    return {core.factors + folds + calls, (twos || extras == 0) && (calls == 0 || on_one_node(a))};
  }
  if (algorithm == "recursive_doubling" || algorithm == "cpu_recursive_doubling") {
    if (a.collective == Collective::kBarrier) return {ceil_log2(p)};
    const int extras = p - (1 << floor_log2(p));
    return {floor_log2(p) + (extras > 0 ? 1 : 0) + (2 * extras > 1 << floor_log2(p) ? 1 : 0)};
  }
  if (algorithm.starts_with("one_shot(") || algorithm == "flat(both)" || algorithm == "linear") return {1};
  if (algorithm == "flat(store)") {
    const bool by_owners = a.collective == Collective::kReduce || a.collective == Collective::kBroadcast;
    const bool two_stages = a.collective == Collective::kAllReduce || (by_owners && p > 2);
    return {two_stages ? 2 : 1};
  }
  if (algorithm == "flat" || algorithm == "flat(load)" || algorithm == "flat(store, zero_copy)") return {flat_steps(a)};
  if (algorithm == "flat(load, zero_copy)") return {a.collective == Collective::kAllReduce ? 3 : 2};
  if (algorithm.starts_with("chain(")) return {p - 1 + peer, on_one_node(a) || peer == 0};
  if (algorithm.starts_with("bruck(")) {
    return {(a.collective == Collective::kAllReduce ? 2 : 1) * ceil_log2(p)};
  }
  if (algorithm == "hierarchical_exchange") {
    AlgorithmArguments by_node = a;
    by_node.groups.clear();
    const auto nodes = groups_of(by_node);
    int largest = 0;
    for (const auto& node : nodes) largest = std::max(largest, static_cast<int>(node.size()));
    return {(nodes.size() > 1 ? 1 : 0) + (largest > 64 ? ceil_log2(largest) : largest > 1 ? 1 : 0)};
  }
  if (algorithm.starts_with("double_binary_tree(")) {
    return {a.collective == Collective::kAllReduce ? 2 * floor_log2(p) : floor_log2(p - 1) + 1};
  }
  if (algorithm == "rings") return {(a.collective == Collective::kAllReduce ? 2 : 1) * (p - 1)};
  if (algorithm.starts_with("spanning_trees("))
    return {(a.collective == Collective::kAllReduce ? 2 : 1) * (p - 1), false};
  if (algorithm.starts_with("two_phase(")) return {3, false};
  if (algorithm == "max_flow") return {p + a.parts - 2, false};
  if (algorithm == "multi_path") {
    const bool is_star = a.collective == Collective::kGather || a.collective == Collective::kScatter;
    const int hops = is_star ? 1 : (a.collective == Collective::kAllReduce ? 2 : 1) * (p - 1);
    const bool relays = relayed_in(plan).units > 0;
    return {relays ? 2 * hops : hops, !relays};
  }
  if (algorithm.starts_with("binomial(")) return {binomial_depth(a) + peer, on_one_node(a)};
  if (algorithm.starts_with("scatter_ring(")) return {binomial_depth(a) + p - 1 + peer, on_one_node(a)};
  if (algorithm.starts_with("scatter_recursive_doubling(")) {
    const int core = floor_log2(p), extras = p - (1 << core);
    const int folds = extras == 0 ? 0 : 2 * extras <= 1 << core ? 1 : 2;
    return {binomial_depth(a) + core + folds + peer, on_one_node(a) && extras == 0};
  }
  const auto groups = groups_of(a);
  const int count = static_cast<int>(groups.size());
  const int largest = static_cast<int>(
      std::max_element(groups.begin(), groups.end(), [](auto& x, auto& y) { return x.size() < y.size(); })->size());
  if (algorithm == "three_stage") {
    const int rounds = (a.parts + 2) / 3;
    const int steps = rounds * 2 * (count - 1) + (largest > 1 ? 2 : 0);
    return {on_one_node(a) ? steps : a.parts * (2 * (count - 1) + 2), on_one_node(a) && equal_sizes(groups)};
  }
  if (algorithm == "nvgroup_ring") {
    if (count == 1) return {flat_steps(a)};
    if (largest == 1) return {2 * (count - 1)};
    return {4 * count - 1 + peer, equal_sizes(groups)};
  }
  ADD_FAILURE() << "no formula for " << algorithm;
  return {};
}

// Of a gather or scatter: every block crosses as many edges as its rank is below the root. In a binomial tree that is
// the number of digits other than 0 in its position, counted from the root; one tree joins the nodes, one the ranks of
// each.
inline int64_t blocks_up_binomial(const AlgorithmArguments& a) {
  AlgorithmArguments from_root = a;
  from_root.groups.clear();
  from_root.node_of.clear();
  for (int v = 0; v < a.ranks && !a.node_of.empty(); ++v) {
    from_root.node_of.push_back(a.node_of[(v + a.root) % a.ranks]);
  }
  int64_t edges = 0;
  const auto nodes = groups_of(from_root);
  for (size_t node = 0; node < nodes.size(); ++node) {
    for (size_t v = 0; v < nodes[node].size(); ++v) edges += digits_of(node, a.radix) + digits_of(v, a.radix);
  }
  return edges;
}

// Every block crosses once between ranks of a node; else once to another node, and once there unless it is for the
// relay.
inline int64_t blocks_by_way_of_nodes(const AlgorithmArguments& a) {
  AlgorithmArguments by_node = a;
  by_node.groups.clear();
  int64_t blocks = 0;
  const auto nodes = groups_of(by_node);
  for (const auto& from : nodes) {
    for (const auto& to : nodes) {
      const auto pairs = static_cast<int64_t>(from.size() * to.size());
      blocks +=
          &from == &to ? pairs - static_cast<int64_t>(from.size()) : 2 * pairs - static_cast<int64_t>(from.size());
    }
  }
  return blocks;
}

// Chunks that cross between ranks, all ranks together.
inline int64_t documented_crossings(std::string_view algorithm, const AlgorithmArguments& a, const Plan& plan) {
  const int64_t p = a.ranks, parts = a.parts;
  const bool peer = a.access == Access::kZeroCopy;
  if (algorithm == "ring") return (a.collective == Collective::kAllReduce ? 2 : 1) * p * (p - 1) * parts;
  if (algorithm == "host_staged") return 2 * p * (p - 1);
  if (algorithm == "hierarchical_ring") {
    int64_t chunks = 0, piece = p;
    for (const int factor : factors_in(plan.algorithm)) chunks += 2 * p * (factor - 1) * (piece /= factor) * parts;
    EXPECT_EQ(chunks, 2 * p * (p - 1) * parts);  // the same volume for every factor list
    return chunks;
  }
  if (algorithm == "hierarchical") return chunks_moved(a, levels_of_plan(plan), plan.chunk_count());
  if (algorithm == "rabenseifner") {
    const int64_t core = core_of(a).ranks, extras = p - core;
    if (a.collective == Collective::kAllReduce) return 2 * core * (core - 1 + extras);
    return p * (p - 1) + (a.collective == Collective::kReduceScatter ? extras : 0);
  }
  if (algorithm == "recursive_doubling" || algorithm == "cpu_recursive_doubling") {
    if (a.collective == Collective::kBarrier) return 0;
    const int64_t core = std::bit_floor(static_cast<unsigned>(p));
    return core * floor_log2(a.ranks) + 2 * (p - core);
  }
  if (algorithm.starts_with("one_shot(")) return (a.collective == Collective::kAllReduce ? p : 1) * (p - 1);
  if (algorithm == "flat(both)") {
    return (has_root(a.collective) ? 1 : p) * (p - 1) * (parts == 1 ? 4 : parts);
  }
  if (algorithm == "flat(store)") {
    if (a.collective == Collective::kBroadcast) return (p - 1) * (p - 1);
    if (a.collective == Collective::kReduce && p == 2) return 1;
    if (a.collective == Collective::kReduce && a.parts == 1) return (p + 1) * (p - 1);
    if (a.collective == Collective::kGather || a.collective == Collective::kScatter) return p - 1;
    return (a.collective == Collective::kAllReduce ? 2 : 1) * p * (p - 1);
  }
  if (algorithm.starts_with("binomial(") && has_rank_blocks(a.collective)) return blocks_up_binomial(a);
  if (algorithm.starts_with("naive_ring(")) return 2 * (p - 1);  // whole messages (NVG-25)
  if (algorithm.starts_with("scatter_")) return blocks_up_binomial(a) + p * (p - 1);
  if (algorithm.starts_with("chain(") || algorithm.starts_with("binomial(")) return (p - 1) * parts;
  if (algorithm.starts_with("bruck(")) return (a.collective == Collective::kAllReduce ? 2 : 1) * p * (p - 1);
  if (algorithm == "linear") return (has_root(a.collective) ? 1 : p) * (p - 1);
  if (algorithm == "hierarchical_exchange") return blocks_by_way_of_nodes(a);
  if (algorithm.starts_with("double_binary_tree(")) {
    return (a.collective == Collective::kAllReduce ? 4 : 2) * (p - 1) * parts;
  }
  if (algorithm == "rings" || algorithm.starts_with("spanning_trees(") || algorithm.starts_with("two_phase(")) {
    return (a.collective == Collective::kAllReduce ? 2 : 1) * (p - 1) * plan.chunk_count();
  }
  if (algorithm == "multi_path") {
    const bool is_star = a.collective == Collective::kGather || a.collective == Collective::kScatter;
    const int64_t hops = (a.collective == Collective::kAllReduce ? 2 : 1) * (p - 1);
    const int64_t chunks = is_star ? plan.chunks_per_block : plan.chunk_count();
    const Relayed relayed = relayed_in(plan);
    return hops * (chunks + chunks * relayed.units / relayed.of);
  }
  if (algorithm == "flat(load, zero_copy)") {  // in one group: every rank combines its chunk, for all (NVG-47, NVG-88)
    const int stages = a.collective == Collective::kAllReduce ? 2 : 1;
    return stages * (has_root(a.collective) ? 1 : p) * (p - 1);
  }
  if (algorithm == "flat" || algorithm == "flat(load)" || algorithm == "flat(store, zero_copy)") {
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
  if (algorithm == "three_stage") return plan.chunk_count() * (2 * (p - groups) + 2 * (groups - 1));
  return -1;  // nvgroup_ring, max_flow: see check_nvgroup_traffic, check_flow_traffic
}

// Whether the plan is right where input and output are the same memory.
inline bool documented_in_place(std::string_view algorithm, const AlgorithmArguments& a) {
  if (algorithm == "linear") return a.collective != Collective::kAllToAll || a.ranks == 1;
  if (algorithm != "flat(load, zero_copy)" || a.ranks == 1) return true;
  if (a.collective == Collective::kAllToAll) return false;
  const bool own_is_shared = a.collective == Collective::kAllGather || a.collective == Collective::kBroadcast;
  return !own_is_shared || a.engine != Engine::kCpu;
}

inline int64_t crossings(const PlanReport& report) {
  int64_t chunks = 0;
  for (const Traffic& traffic : report.traffic) chunks += traffic.from.rank == traffic.to.rank ? 0 : traffic.chunks;
  return chunks;
}

// All other ranks' blocks enter the root, or leave it, once; nothing goes the other way.
inline void check_flow_traffic(const AlgorithmArguments& a, const VerifiedPlan& plan) {
  int64_t in = 0, out = 0;
  for (const Traffic& it : plan.report().traffic) {
    if (it.from.rank == it.to.rank) continue;
    in += it.to.rank == a.root ? it.chunks : 0;
    out += it.from.rank == a.root ? it.chunks : 0;
  }
  const int64_t blocks = int64_t{a.ranks - 1} * plan.plan().chunks_per_block;
  EXPECT_EQ(in, a.collective == Collective::kGather ? blocks : 0);
  EXPECT_EQ(out, a.collective == Collective::kScatter ? blocks : 0);
}

// Per group: what crosses between members, into the leader's host memory, and out of it.
inline void check_nvgroup_traffic(const AlgorithmArguments& a, const VerifiedPlan& plan) {
  const auto groups = groups_of(a);
  const int64_t count = static_cast<int64_t>(groups.size());
  const int64_t all = plan.plan().chunk_count();
  const int64_t peer = a.access == Access::kZeroCopy ? 1 : 0;
  if (count == 1) {
    EXPECT_EQ(crossings(plan.report()), documented_crossings("flat(load)", a, plan.plan()));
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

}  // namespace plait::test
