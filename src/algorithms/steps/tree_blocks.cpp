// Gather and scatter along a tree.
#include "algorithms/steps/tree_blocks.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace plait {
namespace {

// The slots of a member for some blocks, in the order of the message: a range of the message is a range here.
struct BlockStore {
  Place first;
  std::vector<int> blocks;
  int chunks = 1;  // of a block

  Place at(int block) const {
    const auto before = std::lower_bound(blocks.begin(), blocks.end(), block) - blocks.begin();
    return slot_after(first, static_cast<int>(before) * chunks);
  }
};

// Joins neighbouring numbers into ranges.
std::vector<ChunkRange> ranges_of(const std::vector<int>& blocks) {
  std::vector<ChunkRange> ranges;
  for (const int block : blocks) {
    if (ranges.empty() || ranges.back().end() != block) ranges.push_back({block, 0});
    ++ranges.back().count;
  }
  return ranges;
}

// The parts that both ways share: whose blocks are below each member, and where they are while they travel.
class BlocksAlongTree : protected AlongTree {
 public:
  BlocksAlongTree(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape)
      : AlongTree(builder, carrier, tree, shape), below_(tree.parent.size()), stores_(tree.parent.size()) {
    for (auto at = tree.order.rbegin(); at != tree.order.rend(); ++at) {
      std::vector<int>& mine = below_[*at];
      mine.push_back(*at);
      for (const int child : tree.children[*at]) mine.insert(mine.end(), below_[child].begin(), below_[child].end());
      std::sort(mine.begin(), mine.end());
    }
  }

 protected:
  bool is_root(int x) const { return tree_.parent[x] < 0; }
  QueueId queue(int x) const { return shape_.queue(0, x); }
  std::vector<ChunkRange> ranges(int child) const { return ranges_of(below_[child]); }
  ChunkRange chunks_of(ChunkRange blocks) const {
    return {shape_.range(blocks.first).first, blocks.count * shape_.part_chunks};
  }

  void take_store(int x, std::vector<int> blocks) {
    if (blocks.empty()) return;
    const int slots = static_cast<int>(blocks.size()) * shape_.part_chunks;
    stores_[x] = {builder_.take_scratch(rank(x), slots), {}, shape_.part_chunks};
    stores_[x]->blocks = std::move(blocks);
  }
  // The blocks of the root's children on its node.
  std::vector<int> near_root() const {
    std::vector<int> blocks;
    for (const int child : tree_.children[tree_.root()]) {
      if (has_near_parent(child)) blocks.insert(blocks.end(), below_[child].begin(), below_[child].end());
    }
    std::sort(blocks.begin(), blocks.end());
    return blocks;
  }
  void copy(int x, Place to, Place from, ChunkRange blocks) {
    const ChunkRange it = chunks_of(blocks);
    builder_.copy(queue(x), to, from, it.first, it.count);
  }
  void copy_own(int x, Place to, Place from) { copy(x, to, from, {x, 1}); }

  std::vector<std::vector<int>> below_;            // of each member: the blocks of its subtree, in order
  std::vector<std::optional<BlockStore>> stores_;  // of each member that has one
};

class Gather : BlocksAlongTree {
 public:
  using BlocksAlongTree::BlocksAlongTree;

  void make() {
    for (const int x : tree_.order) {
      if (is_root(x)) {
        if (by_store()) take_store(x, near_root());
      } else if (!is_leaf(x) || (has_near_parent(x) && !by_store())) {
        take_store(x, below_[x]);
      }
    }
    std::vector<std::vector<Arrival>> arrivals(tree_.parent.size());
    for (auto at = tree_.order.rbegin(); at != tree_.order.rend(); ++at) {
      for (const int child : tree_.children[*at]) take(*at, child, arrivals[child]);
      keep_own(*at);
      if (!is_root(*at)) arrivals[*at] = hand_up(*at);
    }
  }

 private:
  Place source(int x, int block) const { return stores_[x] ? stores_[x]->at(block) : input_of(rank(x)); }
  Place landing(int x, int block) const { return is_root(x) ? output_of(rank(x)) : stores_[x]->at(block); }

  void keep_own(int x) {
    if (is_root(x)) {
      copy_own(x, output_of(rank(x)), input_of(rank(x)));
    } else if (stores_[x]) {
      copy_own(x, stores_[x]->at(x), input_of(rank(x)));
    }
  }

  void take(int x, int child, const std::vector<Arrival>& arrivals) {
    for (const Arrival& arrival : arrivals) carrier_.await(arrival);
    if (!has_near_parent(child) || (by_store() && !is_root(x))) return;  // they are where they belong
    for (const ChunkRange& range : ranges(child)) {
      const Place from = by_store() ? stores_[x]->at(range.first) : source(child, range.first);
      copy(x, landing(x, range.first), from, range);
    }
  }

  std::vector<Arrival> hand_up(int x) {
    const int parent = tree_.parent[x];
    std::vector<Arrival> arrivals;
    for (const ChunkRange& range : ranges(x)) {
      const Place from = source(x, range.first);
      if (!has_near_parent(x)) {
        const Place to = landing(parent, range.first);
        arrivals.push_back(carrier_.expose(queue(x), from, queue(parent), chunks_of(range), to));
      } else if (by_store()) {
        copy(x, stores_[parent]->at(range.first), from, range);
      }
    }
    if (has_near_parent(x)) arrivals.push_back({{}, builder_.signal(queue(x), queue(parent))});
    return arrivals;
  }
};

class Scatter : BlocksAlongTree {
 public:
  Scatter(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape, Held source,
          const Finish& finish)
      : BlocksAlongTree(builder, carrier, tree, shape), source_(source), finish_(finish) {}

  void make() {
    for (const int x : tree_.order) {
      if (is_root(x)) {
        if (!by_store()) take_store(x, near_root());
      } else if (!is_leaf(x) || (has_near_parent(x) && by_store())) {
        take_store(x, below_[x]);
      }
    }
    std::vector<std::vector<Arrival>> arrivals(tree_.parent.size());
    for (const int x : tree_.order) {
      if (!is_root(x)) take(x, arrivals[x]);
      for (const int child : tree_.children[x]) arrivals[child] = hand_down(x, child);
      if (!is_root(x) && stores_[x]) copy_own(x, home(x, x), stores_[x]->at(x));
    }
  }

 private:
  Place home(int x, int block) const { return finish_.places(rank(x))[0].at(chunks_of({block, 1}).first); }
  Place source(int x, int block) const {
    return is_root(x) ? source_.at(chunks_of({block, 1}).first) : stores_[x]->at(block);
  }
  Place landing(int x, int block) const { return stores_[x] ? stores_[x]->at(block) : home(x, block); }

  void take(int x, const std::vector<Arrival>& arrivals) {
    for (const Arrival& arrival : arrivals) carrier_.await(arrival);
    if (!has_near_parent(x) || by_store()) return;
    for (const ChunkRange& range : ranges(x)) {
      copy(x, landing(x, range.first), stores_[tree_.parent[x]]->at(range.first), range);
    }
  }

  std::vector<Arrival> hand_down(int x, int child) {
    std::vector<Arrival> arrivals;
    for (const ChunkRange& range : ranges(child)) {
      const Place from = source(x, range.first);
      if (!has_near_parent(child)) {
        const Place to = landing(child, range.first);
        arrivals.push_back(carrier_.expose(queue(x), from, queue(child), chunks_of(range), to));
      } else if (by_store()) {
        copy(x, stores_[child]->at(range.first), from, range);
      } else if (is_root(x)) {
        copy(x, stores_[x]->at(range.first), from, range);
      }
    }
    if (has_near_parent(child)) arrivals.push_back({{}, builder_.signal(queue(x), queue(child))});
    return arrivals;
  }

  const Held source_;
  const Finish& finish_;
};

}  // namespace

void gather_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape) {
  Gather(builder, carrier, tree, shape).make();
}

void scatter_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape) {
  const QueueId root = shape.queue(0, tree.root());
  scatter_along(builder, carrier, tree, shape, {input_of(root.rank)}, to_outputs());
  const ChunkRange own = shape.range(tree.root());
  builder.copy(root, output_of(root.rank), input_of(root.rank), own.first, own.count);
}

void scatter_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape, Held source,
                   const Finish& finish) {
  Scatter(builder, carrier, tree, shape, source, finish).make();
}

}  // namespace plait
