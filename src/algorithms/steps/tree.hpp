// Broadcast and reduce along any tree of ranks. The algorithms binomial, chain and double_binary_tree consist of them.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

// A tree of ranks, or of the members of some list: whoever the queues of a TreeShape say.
struct Tree {
  std::vector<int> order;                  // every member once, parents before children
  std::vector<int> parent;                 // of each member; -1 at the root
  std::vector<std::vector<int>> children;  // of each member, in the order in which they are served

  explicit Tree(int root, int members) : order{root}, parent(members, -1), children(members) {}
  void add(int above, int below);
  int root() const { return order[0]; }
  // The members that are so many links below the root; and those whose farthest descendants are so many links below
  // them, leaves first.
  std::vector<std::vector<int>> by_depth() const;
  std::vector<std::vector<int>> by_height() const;
  int depth() const { return static_cast<int>(by_depth().size()) - 1; }
};

// Adds a k-nomial tree over `members`, whose first is already in the tree. The parent of position v is v with its
// lowest digit other than 0 cleared, in the number system of the radix. So subtrees are neighbours in the list, and the
// largest are served first. Radix 2: a binomial tree.
void add_knomial(Tree& tree, const std::vector<int>& members, int radix = 2);

// How parts of the message travel along a tree, one after the other. Each part has `part_chunks` chunks.
struct TreeShape {
  std::vector<std::vector<QueueId>> queues;  // [part modulo the number of queues][member]
  int first_chunk = 0;
  int part_chunks = 1;
  int parts = 1;
  // By load, a rank fetches data from the scratch of the rank that has it. By store, the rank that has data stores it
  // in the scratch of the rank that needs it. Between nodes there are messages.
  Direction direction = Direction::kLoad;
  bool zero_copy = false;
  // Zero-copy broadcasts: children have yet to say that they were called. Else these queues have heard it.
  bool calls = true;
  // Called with a part before the root touches it. May be empty.
  std::function<void(int part)> before_root = {};
  // Called with a part when the root has it. May be empty.
  std::function<void(int part)> after_root = {};

  int queues_in_use() const { return std::min(parts, static_cast<int>(queues.size())); }
  QueueId queue(int part, int member) const { return queues[part % queues.size()][member]; }
  ChunkRange range(int part) const { return {first_chunk + part * part_chunks, part_chunks}; }
  ChunkRange range() const { return {first_chunk, parts * part_chunks}; }
};

// What both ways along a tree share.
class AlongTree {
 protected:
  AlongTree(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape)
      : builder_(builder), carrier_(carrier), tree_(tree), shape_(shape), boxes_(tree.parent.size()) {}

  bool by_store() const { return shape_.direction == Direction::kStore; }
  int rank(int x) const { return shape_.queue(0, x).rank; }
  bool together(int x, int y) const { return carrier_.together(rank(x), rank(y)); }
  bool is_leaf(int x) const { return tree_.children[x].empty(); }
  bool has_near_child(int x) const {
    const auto& children = tree_.children[x];
    return std::any_of(children.begin(), children.end(), [&](int child) { return together(x, child); });
  }
  bool has_near_parent(int x) const { return tree_.parent[x] >= 0 && together(tree_.parent[x], x); }
  void take_box(int x, int owner) {
    boxes_[x] = {builder_.take_scratch(rank(owner), shape_.range().count), shape_.first_chunk};
  }
  QueueId queue(int x, ChunkRange range) const {
    return shape_.queue((range.first - shape_.first_chunk) / shape_.part_chunks, x);
  }
  void reduce(int x, const std::vector<Place>& destinations, const std::vector<Place>& sources, ChunkRange range) {
    builder_.reduce(queue(x, range), destinations, sources, range.first, range.count);
  }

  PlanBuilder& builder_;
  Carrier& carrier_;
  const Tree& tree_;
  const TreeShape& shape_;
  std::vector<std::optional<Held>> boxes_;  // scratch for what each member passes on, or gets
};

// A broadcast along a tree whose root gets its data, range by range, from whoever has it: from itself, or from a level
// above. The arguments must outlive the steps.
class BroadcastSteps : AlongTree {
 public:
  BroadcastSteps(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape);

  // Where to store the root's data, so that its children have it at once.
  Finish ahead(const Finish& finish);
  // Instead: the root has the range where it wants it first of all, and nowhere else yet.
  void give(ChunkRange range, const Finish& finish);
  // Then those pass it on that are so many links below the root, and so forth.
  void follow(int depth, const Finish& finish);
  int depth() const { return static_cast<int>(by_depth_.size()) - 1; }

 private:
  struct Given {  // on its way to a member
    ChunkRange range;
    Arrival arrival;
  };

  bool gets_at_home(int x) const { return shape_.zero_copy && has_near_parent(x); }
  std::vector<Held> boxes_of(int x) const;
  void take(int x, const Finish& finish);
  void hand_on(int x, ChunkRange range, const Finish& finish);
  void hand_to(int child, int x, ChunkRange range, const Finish& finish);

  std::vector<std::optional<SignalId>> calls_;  // of each member that gets data at home; not yet awaited
  std::vector<std::vector<Given>> given_;       // of each member
  const std::vector<std::vector<int>> by_depth_;
};

// All that is below the roots of some trees. Members are in several of them, and what comes first goes on first.
void follow(std::deque<BroadcastSteps>& trees, const Finish& finish);

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
// The same along several trees with one root, of which each takes its own range in as many parts. Members are in
// several of them: all parts of what waits for nobody come first, and so on by height.
void reduce_along(PlanBuilder& builder, Carrier& carrier, const std::vector<Tree>& trees,
                  const std::vector<TreeShape>& shapes, const HeldByRank& held, Held result);
// The same, but the last reduction is left to the reduce that needs it. Returns what the root has to combine.
// Not zero-copy.
std::vector<Held> reduce_to_root(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                                 const HeldByRank& held);
// The same along several trees, whose roots may differ. Returns what each root has to combine.
std::vector<std::vector<Held>> reduce_to_roots(PlanBuilder& builder, Carrier& carrier, const std::vector<Tree>& trees,
                                               const std::vector<TreeShape>& shapes, const HeldByRank& held);

// Brings what root x has to combine, at_roots[x], to all members of its tree.
void broadcast_from_roots(PlanBuilder& builder, Carrier& carrier, const std::vector<Tree>& trees,
                          const std::vector<TreeShape>& shapes, const std::vector<std::vector<Held>>& at_roots,
                          const Finish& finish);

}  // namespace plait
