// Binomial tree (AWA-13).
#include "algorithms/arguments.hpp"
#include "algorithms/catalog.hpp"
#include "algorithms/tree.hpp"

namespace plait {
namespace {

// Position v (counted from the root) hangs below v without its lowest one bit. Eight ranks, root 0:
//
//            0                     broadcast: downwards, whole messages; the largest subtree is served first
//        / / |                     reduce: upwards; a rank combines its own input and all its children in one fold
//       4  2  1
//      / \  \                      Subtrees are contiguous: 4 {5, 6 {7}}
//     6   5  3
//     |
//     7
//
// On several nodes one tree joins one rank of each node (the root's node: the root; else the first), and one tree
// each node's ranks, so that every node is entered once (AWA-11).
//
// Steps: floor(log2 p), the most one bits in a position, as children fetch at the same time. On N nodes of n ranks
//   floor(log2 N) + floor(log2 n). With Reach::kPeer one more: a call before a broadcast, an answer after a reduce
//   (to the leaves, whose inputs are read in place).
// Bytes: every rank but the root receives M once (broadcast) or sends M once (reduce).
// Scratch slots of M: broadcast 1 where a rank has children on its node (kPeer: none); reduce 1 but at the root (leaves
//   with kPeer or below another node: none), and 1 for each child on another node.
// When: small messages, many ranks, several nodes. parts: that follow one another down the tree.
Plan make_binomial(const AlgorithmArguments& arguments) {
  check_arguments(binomial(), arguments);
  const auto position = [&](int v) { return (v + arguments.root) % arguments.ranks; };
  std::vector<int> heads;                    // one rank of each node, the root first
  std::vector<std::vector<int>> node_ranks;  // the head's own node
  for (int v = 0; v < arguments.ranks; ++v) {
    const int rank = position(v);
    size_t node = 0;
    while (node < heads.size() && node_of(arguments, heads[node]) != node_of(arguments, rank)) ++node;
    if (node == heads.size()) {
      heads.push_back(rank);
      node_ranks.emplace_back();
    }
    node_ranks[node].push_back(rank);
  }
  Tree tree(arguments.root, arguments.ranks);
  add_binomial(tree, heads);
  for (const auto& ranks : node_ranks) add_binomial(tree, ranks);
  return arguments.collective == Collective::kBroadcast ? broadcast_along(tree, binomial(), arguments)
                                                        : reduce_along(tree, binomial(), arguments);
}

std::vector<AlgorithmArguments> binomial_candidates(const AlgorithmArguments& machine) {
  return with_parts(machine, {1, 2, 4, 8});
}

}  // namespace

Algorithm binomial() {
  return {.name = "binomial",
          .summary = "a tree that doubles the ranks that have the message; log2 p steps",
          .source = "AWA-13, AWA-11",
          .collectives = {Collective::kBroadcast, Collective::kReduce},
          .uses = {.parts = true, .zero_copy = true},
          .make = make_binomial,
          .candidates = binomial_candidates};
}

}  // namespace plait
