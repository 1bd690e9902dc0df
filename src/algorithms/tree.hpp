// Broadcast and reduce along any tree of ranks: what binomial and chain are made of.
#pragma once

#include <vector>

#include "algorithms/arguments.hpp"

namespace plait {

struct Tree {
  std::vector<int> order;                  // every rank once, parents before their children; the root first
  std::vector<int> parent;                 // of each rank; -1 at the root
  std::vector<std::vector<int>> children;  // of each rank, in the order in which they are served

  explicit Tree(int root, int ranks) : order{root}, parent(ranks, -1), children(ranks) {}
  void add(int above, int below);
};

// Adds a binomial tree over `ranks`, whose first is already in the tree: position v hangs below v with its lowest one
// bit cleared, so that subtrees are neighbours in the list and the largest is served first.
void add_binomial(Tree& tree, const std::vector<int>& ranks);

// Every rank passes what it has to its children, in parts.
Plan broadcast_along(const Tree& tree, const Algorithm& algorithm, const AlgorithmArguments& arguments);
// Every rank combines its input with what its children have, in parts.
Plan reduce_along(const Tree& tree, const Algorithm& algorithm, const AlgorithmArguments& arguments);

}  // namespace plait
