// A hierarchy of any levels, each with an algorithm of its own (UEN-14, NVG-18, NVG-32, AWA-01).
#include <algorithm>
#include <string_view>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/composition.hpp"
#include "algorithms/steps/host_pairs.hpp"
#include "algorithms/steps/machine_levels.hpp"
#include "algorithms/steps/paths.hpp"

namespace plait {

Algorithm hierarchical();

namespace {

// Each level joins the units of the level before: so many neighbours (4), the ranks of a group or node, or all. Ranks
// with the same place in their units are a list, and each list performs the level's algorithm on its share of the
// message. hierarchical(4: ring, 2: recursive_doubling), level by level:
//
//     reduce-scatter              all-reduce                 all-gather
//     (0 1 2 3) (4 5 6 7)         (0 4) (1 5) (2 6) (3 7)    (0 1 2 3) (4 5 6 7)
//     by ring, pieces of M/4      of M/4, by doubling        by ring, pieces of M/4
//
// Reductions are left to the next level's first reduce, and what the level above stores may be on its way to others at
// once. With all_reduce, a level makes a whole all-reduce before the next one begins, as NVG-29 prints it.
//
// A reduce_scatter goes up only, an all_gather down. A rank's block is its share of the shares, so what neighbours pass
// on consists of blocks that are not neighbours in the message: an operation for each run of neighbours.
//
// A broadcast comes to the leaders of the units of the last level, and from them to those of the level before, each
// level by its own algorithm: a tree, two trees, or a scatter and an all-gather (AWA-01, AWA-11..16). The root leads
// its units. hierarchical(4: chain, 2: binomial), root 5:
//
//     5 --> 0        5 --> 6 --> 7 --> 4        0 --> 1 --> 2 --> 3
//
// A reduce goes the other way, along trees; levels of several trees cut the message into pieces (level_trees.hpp).
//
// All levels are one plan, so one launch for each rank, where a collective of a library for each level (UEN-26) takes
// one for each and cannot overlap them (UEN-62, UEN-63).
//
// Steps: the sum of those of the levels. Bytes: those of each level, with its share of the message.
// When: links of unequal speed, many ranks. reduce_scatter and all_gather take fewer steps than a ring over all, and no
//   more bytes.
// parts: of the message, so that levels work at the same time (TEM-14). In an all-reduce levels may have parts of their
//   own, of a piece.
// shares: of an all_reduce. Ranks of one socket that have a path through host memory send a part of everything there,
//   in queues of their own; others send it directly (TEM-16, TEM-19).
// reduce_scatter and all_gather are not zero-copy: ranks would have to say when their neighbours may load or store.
Plan make_hierarchical(const AlgorithmArguments& given) {
  check_arguments(hierarchical(), given);
  if (has_rank_blocks(given.collective) && given.access == Access::kZeroCopy) {
    refuse(hierarchical(), "a ", name(given.collective),
           " by levels goes through scratch; for zero-copy use flat, rabenseifner or ring");
  }
  for (const Level& level : given.levels) parse_level(to_text(level));  // refuses what no text could ask for
  AlgorithmArguments arguments = given;
  arguments.levels = with_directions(given.levels.empty() ? usual_levels(given) : given.levels, given);
  return compose(hierarchical(), arguments, arguments.levels, arguments.parts);
}

std::vector<Level> with_top(std::vector<Level> levels, std::string_view algorithm) {
  levels.back().algorithm = algorithm;
  return levels;
}

// Whether three_stage makes the same plan. It goes by the groups, and so does not see the nodes of ranks without
// groups.
bool is_three_stage(const std::vector<Level>& levels, const AlgorithmArguments& machine) {
  return levels.size() == 2 && levels[0].leaders == 1 &&
         ranks_within(machine, levels[0].reach) == groups_or_nodes(machine);
}

// Shares with which paths in groups end together, and half as much through the host, whose links also carry what goes
// from socket to socket.
std::vector<AlgorithmArguments> with_shares(const AlgorithmArguments& machine, const std::vector<Level>& levels) {
  if (machine.collective != Collective::kAllReduce || machine.access != Access::kStaged || !machine.shares.empty()) {
    return {};
  }
  std::vector<AlgorithmArguments> all;
  for (AlgorithmArguments& it : with_parts(machine, {1, 4})) {
    it.shares = shares_in_groups(it, it.parts);
    if (!is_worth_it(it.shares)) continue;
    it.levels = with_directions(levels, it);
    all.push_back(it);
    const int half = it.shares[1].share / 2;
    it.shares = {{PathKind::kDirect, 100 - half}, {PathKind::kHost, half}};
    all.push_back(it);
  }
  return all;
}

std::vector<AlgorithmArguments> hierarchical_candidates(const AlgorithmArguments& machine) {
  const std::vector<Level> usual = usual_levels(machine);
  if (usual.size() < 2 || is_three_stage(usual, machine)) return {};
  const bool is_even = std::none_of(usual.begin(), usual.end(), [](const Level& it) { return it.leaders > 0; });
  if (has_rank_blocks(machine.collective) && (!is_even || machine.access == Access::kZeroCopy)) return {};
  std::vector<AlgorithmArguments> all;
  const auto add = [&](const std::vector<Level>& levels, const std::vector<int>& parts) {
    AlgorithmArguments candidate = machine;
    candidate.levels = with_directions(levels, machine);
    const auto with = with_parts(candidate, parts);
    all.insert(all.end(), with.begin(), with.end());
  };
  if (has_root(machine.collective)) {
    add(usual, {2, 4, 8});
    add(machine_levels(machine, "flat", "chain"), {2, 4, 8});
    // Long messages over few nodes, medium ones, and short ones.
    add(machine_levels(machine, "double_binary_tree", "chain"), {16, 4});
    add(machine_levels(machine, "double_binary_tree", "binomial"), {4});
    std::vector<Level> low = machine_levels(machine, "flat", "binomial");
    low.back().radix = 4;
    add(low, {1});
  } else {
    // Over groups a double_binary_tree is slower than what is here: two members of a list have all sums, and not each
    // its piece.
    add(usual, {1, 2, 4});
    const auto over_paths = with_shares(machine, usual);
    all.insert(all.end(), over_paths.begin(), over_paths.end());
    add(with_top(usual, "rabenseifner"), {1, 2});
    add(machine.collective == Collective::kAllReduce ? with_top(usual, "recursive_doubling")
                                                     : machine_levels(machine, "ring", "ring"),
        {1});
  }
  return all;
}

}  // namespace

Algorithm hierarchical() {
  return {.name = "hierarchical",
          .summary = "levels of any algorithms: hierarchical(node: flat, all: ring)",
          .source =
              "UEN-14, UEN-59..61, NVG-14, NVG-18, NVG-29, NVG-32, NVG-61, NVG-96, NVG-97, AWA-01, AWA-11..16, AWA-20, "
              "TEM-16, TEM-19, TEM-21, TEM-22, TEM-59",
          .collectives = {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                          Collective::kReduceScatter, Collective::kAllGather},
          .uses = {.levels = true, .parts = true, .zero_copy = true, .shares = true},
          .make = make_hierarchical,
          .candidates = hierarchical_candidates};
}

}  // namespace plait
