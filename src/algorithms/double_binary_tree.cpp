// Double binary tree: two trees at once, each with half of the message (NVG-30).
#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/tree.hpp"

namespace plait {

Algorithm double_binary_tree();

namespace {

// In a binary tree half of the ranks are leaves and only take, or only give. So there are two trees, and who is an
// inner node of one is a leaf of the other. Seven ranks in order, numbered from one on, and the second tree, shifted by
// one:
//
//              4                          5              In order, inner nodes have even numbers, whatever the number
//          /       \                  /       \          of ranks. Those of the other tree are odd: numbers are shifted
//        2           6              3           7        by one where there are odd many, else counted from the end.
//      /   \       /   \          /   \       /   \      (Sanders, Speck, Träff 2009.)
//     1     3     5     7        2     4     6     1
//
// all_reduce: up and then down, over all ranks. broadcast, reduce: the root, which has more to do than others, stands
// above both trees, of all others. Ranks of a node are neighbours in the order.
//
// Steps: all_reduce 2 floor(log2 p); broadcast, reduce floor(log2(p-1)) + 1.
// Bytes: every rank takes in M/2 from each neighbour in a tree, in each direction that there is; so at most M, up and
//   down, where all links of a binary tree's inner nodes would have to carry 2 M.
// Scratch: by load M/2 where a rank has children on its node, or a parent there; by store M/2 for each that stores. Up
//   and down each, and M/2 for each child on another node.
// When: long messages over many ranks, whose ring would have too many steps; between nodes.
// parts: of each half, that follow one another. Lanes: one for each tree, up and down; and as many pairs for messages.

// Adds positions [first, first + count) of `order` below `above`, in order.
void add_in_order(Tree& tree, int above, const std::vector<int>& order, int first, int count) {
  if (count == 0) return;
  const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(count))) - 1;
  const int middle = order[first + left];
  if (middle != above) tree.add(above, middle);
  add_in_order(tree, middle, order, first, left);
  add_in_order(tree, middle, order, first + left + 1, count - left - 1);
}

// Ranks, those of a node together, without the root where the collective has one.
std::vector<int> ranks_in_order(const AlgorithmArguments& arguments) {
  std::vector<int> order(arguments.ranks);
  std::iota(order.begin(), order.end(), 0);
  if (has_root(arguments.collective)) order.erase(order.begin() + arguments.root);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return node_of(arguments, a) < node_of(arguments, b); });
  return order;
}

std::vector<Tree> two_trees(const AlgorithmArguments& arguments) {
  std::vector<int> order = ranks_in_order(arguments);
  const int count = static_cast<int>(order.size());
  std::vector<Tree> trees;
  for (int tree = 0; tree < 2; ++tree) {
    const int top = has_root(arguments.collective)
                        ? arguments.root
                        : order[static_cast<int>(std::bit_floor(static_cast<unsigned>(count))) - 1];
    add_in_order(trees.emplace_back(top, arguments.ranks), top, order, 0, count);
    if (count % 2 == 0) {
      std::reverse(order.begin(), order.end());
    } else {
      std::rotate(order.begin(), order.begin() + 1, order.end());
    }
  }
  return trees;
}

Plan make_double_binary_tree(const AlgorithmArguments& arguments) {
  check_arguments(double_binary_tree(), arguments);
  const Collective collective = arguments.collective;
  const int parts = arguments.parts;
  PlanBuilder builder = start_plan(double_binary_tree(), arguments, int64_t{2} * parts);
  const std::vector<Tree> trees = two_trees(arguments);
  for (int half = 0; half < 2; ++half) {
    const int root = trees[half].root();
    // Messages of their own lanes: neither tree, and neither way, waits for the other.
    Carrier upwards(builder, arguments.node_of), downwards(builder, arguments.node_of);
    TreeShape up, down;
    up.parts = down.parts = parts;
    up.first_chunk = down.first_chunk = half * parts;
    up.direction = down.direction = arguments.direction;
    if (collective != Collective::kBroadcast) up.lanes = {add_lanes(builder, arguments)};
    if (collective != Collective::kReduce) down.lanes = {add_lanes(builder, arguments)};
    std::vector<SignalId> ready(parts);
    if (collective == Collective::kAllReduce) {
      up.after_root = [&](int part) { ready[part] = builder.signal(up.lane(part, root), down.lane(part, root)); };
      down.before_root = [&](int part) { builder.wait(ready[part]); };
    }
    if (collective != Collective::kBroadcast) {
      reduce_along(builder, upwards, trees[half], up, all_inputs(arguments.ranks), {output_of(root)});
    }
    if (collective != Collective::kReduce) {
      const Place source = collective == Collective::kBroadcast ? input_of(root) : output_of(root);
      broadcast_along(builder, downwards, trees[half], down, {source});
    }
  }
  return builder.finish();
}

std::vector<AlgorithmArguments> double_binary_tree_candidates(const AlgorithmArguments& machine) {
  if (machine.ranks < 4 || machine.reach == Reach::kPeer) return {};  // else it is no better than a chain
  std::vector<AlgorithmArguments> all;
  for (const bool second : {false, true}) {
    for (AlgorithmArguments it : with_parts(machine, {4, 8, 2, 1})) {
      it.direction = on_gpus(machine) != second ? Direction::kStore : Direction::kLoad;
      all.push_back(it);
    }
  }
  return all;
}

}  // namespace

Algorithm double_binary_tree() {
  return {.name = "double_binary_tree",
          .summary = "two binary trees, each with half of the message; inner nodes of one are leaves of the other",
          .source = "NVG-30",
          .collectives = {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast},
          .uses = {.direction = true, .parts = true},
          .make = make_double_binary_tree,
          .candidates = double_binary_tree_candidates};
}

}  // namespace plait
