// Double binary tree: two trees at once, each with half of the message (NVG-30).
#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/tree.hpp"
#include "algorithms/steps/two_trees.hpp"

namespace plait {

Algorithm double_binary_tree();

namespace {

// Half of the ranks of a binary tree are leaves, which do little. So there are two trees, and a rank that is inside one
// is a leaf of the other (steps/two_trees.hpp says how they are made). Seven ranks:
//
//     one half of the message          the other half
//
//              r3                             r4             all_reduce: up the tree, every rank adds its input to
//           /      \                       /      \          the sums of its children; the sum of all goes down.
//         r1        r5                   r2        r6
//        /  \      /  \                 /  \      /  \        reduce goes up only, broadcast down only. The root has
//       r0  r2    r4  r6               r1  r3    r5  r0      more to do than others: it stands above both trees,
//                                                            which are of all others.
//
// Ranks of a node are neighbours in the order.
//
// Steps: all_reduce 2 floor(log2 p); broadcast, reduce floor(log2(p-1)) + 1.
// Bytes: every rank receives M/2 from each neighbour in a tree, in each direction that is used. That is at most M, up
//   and down; all links of a binary tree's inner nodes would have to carry 2 M.
// Scratch: by load M/2 if a rank has children on its node, or a parent there; by store M/2 for each rank that stores.
//   Up and down each, and M/2 for each child on another node.
// When: long messages over many ranks, whose ring would have too many steps; between nodes.
// parts: of each half; they follow one another.

// All ranks, with those of a node next to each other, without the root if the collective has one.
std::vector<int> ranks_in_order(const AlgorithmArguments& arguments) {
  std::vector<int> order(arguments.ranks);
  std::iota(order.begin(), order.end(), 0);
  if (has_root(arguments.collective)) order.erase(order.begin() + arguments.root);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return node_of(arguments, a) < node_of(arguments, b); });
  return order;
}

std::vector<Tree> trees_of(const AlgorithmArguments& arguments) {
  std::vector<int> order = ranks_in_order(arguments);
  if (has_root(arguments.collective)) return two_trees_below(arguments.root, std::move(order), arguments.ranks);
  return two_trees(std::move(order), arguments.ranks);
}

// The queues in which the ranks act for one of the trees, up and down. A reduction or a broadcast has a queue for each
// tree. All_reduce has one for a rank as an inner node on the way up, one for an inner node on the way down, and one
// for a leaf, both ways. A leaf begins without waiting for any rank, and three queues are what GPUs perform.
struct QueuesOfTree {
  std::vector<QueueId> up, down;
};

std::vector<QueuesOfTree> add_queues_of_trees(PlanBuilder& builder, const AlgorithmArguments& arguments,
                                              const std::vector<Tree>& trees) {
  std::vector<QueuesOfTree> queues;
  if (arguments.collective != Collective::kAllReduce) {
    for (size_t half = 0; half < trees.size(); ++half) {
      const std::vector<QueueId> both_ways = add_queues(builder, arguments);
      queues.push_back({both_ways, both_ways});
    }
    return queues;
  }
  const std::vector<QueueId> up = add_queues(builder, arguments), down = add_queues(builder, arguments);
  const std::vector<QueueId> leaf = add_queues(builder, arguments);
  for (const Tree& tree : trees) {
    QueuesOfTree& it = queues.emplace_back(QueuesOfTree{up, down});
    for (int rank = 0; rank < arguments.ranks; ++rank) {
      if (tree.children[rank].empty() && tree.parent[rank] >= 0) it.up[rank] = it.down[rank] = leaf[rank];
    }
  }
  return queues;
}

Plan make_double_binary_tree(const AlgorithmArguments& arguments) {
  check_arguments(double_binary_tree(), arguments);
  const Collective collective = arguments.collective;
  const bool reduces = collective != Collective::kBroadcast, broadcasts = collective != Collective::kReduce;
  const int parts = arguments.parts;
  PlanBuilder builder = start_plan(double_binary_tree(), arguments, int64_t{2} * parts);
  // Messages have queues of their own, so that neither tree and neither way waits for the other.
  std::deque<Carrier> carriers;
  for (int i = 0; i < 4; ++i) carriers.emplace_back(builder, arguments.node_of);
  const std::vector<Tree> trees = trees_of(arguments);
  const std::vector<QueuesOfTree> queues = add_queues_of_trees(builder, arguments, trees);
  std::vector<std::vector<SignalId>> ready(2);  // [tree]: of each part, at the root
  const auto shape_of = [&](int half, const std::vector<QueueId>& of_ranks) {
    TreeShape shape;
    shape.queues = {of_ranks};
    shape.parts = parts;
    shape.first_chunk = half * parts;
    shape.direction = arguments.direction;
    return shape;
  };
  // Both trees go up before one goes down, so that leaves begin with work that waits for no rank.
  for (int half = 0; half < 2 && reduces; ++half) {
    const int root = trees[half].root();
    TreeShape shape = shape_of(half, queues[half].up);
    shape.after_root = [&](int) {
      if (broadcasts) ready[half].push_back(builder.signal(queues[half].up[root], queues[half].down[root]));
    };
    reduce_along(builder, carriers[half], trees[half], shape, all_inputs(arguments.ranks), {output_of(root)});
  }
  for (int half = 0; half < 2 && broadcasts; ++half) {
    const int root = trees[half].root();
    TreeShape shape = shape_of(half, queues[half].down);
    shape.before_root = [&](int part) {
      if (reduces) builder.wait(ready[half][part]);
    };
    broadcast_along(builder, carriers[2 + half], trees[half], shape, {reduces ? output_of(root) : input_of(root)});
  }
  return builder.finish();
}

std::vector<AlgorithmArguments> double_binary_tree_candidates(const AlgorithmArguments& machine) {
  if (machine.ranks < 4 || machine.access == Access::kZeroCopy) return {};  // else it is no better than a chain
  return in_both_directions(with_parts(machine, {4, 8, 2, 1}));
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
