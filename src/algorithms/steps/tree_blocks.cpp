// Gather and scatter along a tree.
#include "algorithms/steps/tree_blocks.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace plait {
namespace {

// The slots of a rank for some blocks, in the order of the message: a range of the message is a range here.
struct BlockStore {
  Place first;
  std::vector<int> blocks;

  Place at(int block) const {
    return slot_after(first, static_cast<int>(std::lower_bound(blocks.begin(), blocks.end(), block) - blocks.begin()));
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

// The parts that both ways share: whose blocks are below each rank, and where they are while they travel.
class BlocksAlongTree {
 public:
  BlocksAlongTree(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape)
      : builder_(builder),
        carrier_(carrier),
        tree_(tree),
        shape_(shape),
        below_(tree.parent.size()),
        stores_(tree.parent.size()) {
    for (auto at = tree.order.rbegin(); at != tree.order.rend(); ++at) {
      std::vector<int>& mine = below_[*at];
      mine.push_back(*at);
      for (const int child : tree.children[*at]) mine.insert(mine.end(), below_[child].begin(), below_[child].end());
      std::sort(mine.begin(), mine.end());
    }
  }

 protected:
  bool by_store() const { return shape_.direction == Direction::kStore; }
  bool is_leaf(int rank) const { return tree_.children[rank].empty(); }
  bool is_root(int rank) const { return tree_.parent[rank] < 0; }
  bool is_near(int child) const { return carrier_.together(tree_.parent[child], child); }
  QueueId queue(int rank) const { return shape_.queue(0, rank); }
  std::vector<ChunkRange> ranges(int child) const { return ranges_of(below_[child]); }

  void take_store(int rank, std::vector<int> blocks) {
    if (blocks.empty()) return;
    stores_[rank] = {builder_.take_scratch(rank, static_cast<int>(blocks.size())), {}};
    stores_[rank]->blocks = std::move(blocks);
  }
  // The blocks of the root's children on its node.
  std::vector<int> near_root() const {
    std::vector<int> blocks;
    for (const int child : tree_.children[tree_.root()]) {
      if (is_near(child)) blocks.insert(blocks.end(), below_[child].begin(), below_[child].end());
    }
    std::sort(blocks.begin(), blocks.end());
    return blocks;
  }
  void copy(int rank, Place to, Place from, ChunkRange range) {
    builder_.copy(queue(rank), to, from, range.first, range.count);
  }
  void copy_own(int rank, Place to, Place from) { copy(rank, to, from, {rank, 1}); }

  PlanBuilder& builder_;
  Carrier& carrier_;
  const Tree& tree_;
  const TreeShape& shape_;
  std::vector<std::vector<int>> below_;            // of each rank: the blocks of its subtree, in order
  std::vector<std::optional<BlockStore>> stores_;  // of each rank that has one
};

class Gather : BlocksAlongTree {
 public:
  using BlocksAlongTree::BlocksAlongTree;

  void make() {
    for (const int rank : tree_.order) {
      if (is_root(rank)) {
        if (by_store()) take_store(rank, near_root());
      } else if (!is_leaf(rank) || (is_near(rank) && !by_store())) {
        take_store(rank, below_[rank]);
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
  Place source(int rank, int block) const { return stores_[rank] ? stores_[rank]->at(block) : input_of(rank); }
  Place landing(int rank, int block) const { return is_root(rank) ? output_of(rank) : stores_[rank]->at(block); }

  void keep_own(int rank) {
    if (is_root(rank)) {
      copy_own(rank, output_of(rank), input_of(rank));
    } else if (stores_[rank]) {
      copy_own(rank, stores_[rank]->at(rank), input_of(rank));
    }
  }

  void take(int rank, int child, const std::vector<Arrival>& arrivals) {
    for (const Arrival& arrival : arrivals) carrier_.await(arrival);
    if (!is_near(child) || (by_store() && !is_root(rank))) return;  // they are where they belong
    for (const ChunkRange& range : ranges(child)) {
      const Place from = by_store() ? stores_[rank]->at(range.first) : source(child, range.first);
      copy(rank, landing(rank, range.first), from, range);
    }
  }

  std::vector<Arrival> hand_up(int rank) {
    const int parent = tree_.parent[rank];
    std::vector<Arrival> arrivals;
    for (const ChunkRange& range : ranges(rank)) {
      const Place from = source(rank, range.first);
      if (!is_near(rank)) {
        arrivals.push_back(carrier_.expose(queue(rank), from, queue(parent), range, landing(parent, range.first)));
      } else if (by_store()) {
        copy(rank, stores_[parent]->at(range.first), from, range);
      }
    }
    if (is_near(rank)) arrivals.push_back({{}, builder_.signal(queue(rank), queue(parent))});
    return arrivals;
  }
};

class Scatter : BlocksAlongTree {
 public:
  using BlocksAlongTree::BlocksAlongTree;

  void make() {
    for (const int rank : tree_.order) {
      if (is_root(rank)) {
        if (!by_store()) take_store(rank, near_root());
      } else if (!is_leaf(rank) || (is_near(rank) && by_store())) {
        take_store(rank, below_[rank]);
      }
    }
    std::vector<std::vector<Arrival>> arrivals(tree_.parent.size());
    for (const int rank : tree_.order) {
      if (!is_root(rank)) take(rank, arrivals[rank]);
      for (const int child : tree_.children[rank]) arrivals[child] = hand_down(rank, child);
      if (is_root(rank)) {
        copy_own(rank, output_of(rank), input_of(rank));
      } else if (stores_[rank]) {
        copy_own(rank, output_of(rank), stores_[rank]->at(rank));
      }
    }
  }

 private:
  Place source(int rank, int block) const { return is_root(rank) ? input_of(rank) : stores_[rank]->at(block); }
  Place landing(int rank, int block) const { return stores_[rank] ? stores_[rank]->at(block) : output_of(rank); }

  void take(int rank, const std::vector<Arrival>& arrivals) {
    for (const Arrival& arrival : arrivals) carrier_.await(arrival);
    if (!is_near(rank) || by_store()) return;
    for (const ChunkRange& range : ranges(rank)) {
      copy(rank, landing(rank, range.first), stores_[tree_.parent[rank]]->at(range.first), range);
    }
  }

  std::vector<Arrival> hand_down(int rank, int child) {
    std::vector<Arrival> arrivals;
    for (const ChunkRange& range : ranges(child)) {
      const Place from = source(rank, range.first);
      if (!is_near(child)) {
        arrivals.push_back(carrier_.expose(queue(rank), from, queue(child), range, landing(child, range.first)));
      } else if (by_store()) {
        copy(rank, stores_[child]->at(range.first), from, range);
      } else if (is_root(rank)) {
        copy(rank, stores_[rank]->at(range.first), from, range);
      }
    }
    if (is_near(child)) arrivals.push_back({{}, builder_.signal(queue(rank), queue(child))});
    return arrivals;
  }
};

}  // namespace

void gather_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape) {
  Gather(builder, carrier, tree, shape).make();
}

void scatter_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape) {
  Scatter(builder, carrier, tree, shape).make();
}

}  // namespace plait
