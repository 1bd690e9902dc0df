// What goes down or up any tree of ranks: what binomial, chain and double_binary_tree are made of.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

struct Tree {
  std::vector<int> order;                  // every rank of the tree once, parents before their children; the root first
  std::vector<int> parent;                 // of each rank; -1 at the root
  std::vector<std::vector<int>> children;  // of each rank, in the order in which they are served

  explicit Tree(int root, int ranks) : order{root}, parent(ranks, -1), children(ranks) {}
  void add(int above, int below);
  int root() const { return order[0]; }
};

// Adds a binomial tree over `ranks`, whose first is already in the tree: position v hangs below v with its lowest one
// bit cleared, so that subtrees are neighbours in the list and the largest is served first.
void add_binomial(Tree& tree, const std::vector<int>& ranks);

// How parts of the message, of so many chunks each, travel along a tree, one after the other.
struct TreeShape {
  std::vector<std::vector<QueueId>> queues;  // [part modulo their number][rank]
  int first_chunk = 0;
  int part_chunks = 1;
  int parts = 1;
  // By load, who needs it fetches it from scratch of who has it; by store, who has it stores it in scratch of who needs
  // it. Between nodes there are messages.
  Direction direction = Direction::kLoad;
  bool zero_copy = false;
  // Called with a part before the root touches it; may be empty.
  std::function<void(int part)> before_root = {};
  // Called with a part when the root has it; may be empty.
  std::function<void(int part)> after_root = {};

  int queues_in_use() const { return std::min(parts, static_cast<int>(queues.size())); }
  QueueId queue(int part, int rank) const { return queues[part % queues.size()][rank]; }
  ChunkRange range(int part) const { return {first_chunk + part * part_chunks, part_chunks}; }
};

// What lies at `source`, which is the root's, comes to the outputs of all in the tree. Zero-copy, parents store
// straight to the outputs of their children, who have told that they were called: so it goes by store.
void broadcast_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape, Held source);

// What all in the tree have, held[rank], is combined at `result`, which is the root's: by load a rank's own before what
// its children have, by store behind that, in the order in which it serves them. Zero-copy, the inputs of leaves are
// read where they are: so it goes by load.
void reduce_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                  const HeldByRank& held, Held result);

}  // namespace plait
