// Broadcast and reduce along any tree of ranks. The algorithms binomial, chain and double_binary_tree consist of them.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

struct Tree {
  std::vector<int> order;                  // every rank of the tree once, parents before children
  std::vector<int> parent;                 // of each rank; -1 at the root
  std::vector<std::vector<int>> children;  // of each rank, in the order in which they are served

  explicit Tree(int root, int ranks) : order{root}, parent(ranks, -1), children(ranks) {}
  void add(int above, int below);
  int root() const { return order[0]; }
  int depth() const;  // links from the root to the farthest rank
};

// Adds a k-nomial tree over `ranks`, whose first is already in the tree. The parent of position v is v with its lowest
// digit other than 0 cleared, in the number system of the radix. So subtrees are neighbours in the list, and the
// largest are served first. Radix 2: a binomial tree.
void add_knomial(Tree& tree, const std::vector<int>& ranks, int radix = 2);

// How parts of the message travel along a tree, one after the other. Each part has `part_chunks` chunks.
struct TreeShape {
  std::vector<std::vector<QueueId>> queues;  // [part modulo the number of queues][rank]
  int first_chunk = 0;
  int part_chunks = 1;
  int parts = 1;
  // By load, a rank fetches data from the scratch of the rank that has it. By store, the rank that has data stores it
  // in the scratch of the rank that needs it. Between nodes there are messages.
  Direction direction = Direction::kLoad;
  bool zero_copy = false;
  // Called with a part before the root touches it. May be empty.
  std::function<void(int part)> before_root = {};
  // Called with a part when the root has it. May be empty.
  std::function<void(int part)> after_root = {};

  int queues_in_use() const { return std::min(parts, static_cast<int>(queues.size())); }
  QueueId queue(int part, int rank) const { return queues[part % queues.size()][rank]; }
  ChunkRange range(int part) const { return {first_chunk + part * part_chunks, part_chunks}; }
};

// Brings the data at `source`, a place of the root, to the outputs of all ranks in the tree. Zero-copy, parents store
// straight to the outputs of their children, which have signalled that they were called; the direction is then kStore.
void broadcast_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape, Held source);
// The same if the root has yet to combine `sources`, and every rank stores the result where `finish` says.
void broadcast_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                     const std::vector<Held>& sources, const Finish& finish);

// Combines the data of all ranks in the tree, held[rank], at `result`, a place of the root. By load, a rank's own data
// comes before that of its children; by store, after it. Children come in the order in which they are served.
// Zero-copy, the inputs of leaves are read where they are; the direction is then kLoad.
void reduce_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                  const HeldByRank& held, Held result);
// The same, but the last reduction is left to the reduce that needs it. Returns what the root has to combine.
// Not zero-copy.
std::vector<Held> reduce_to_root(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                                 const HeldByRank& held);

}  // namespace plait
