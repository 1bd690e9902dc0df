// Algorithms as levels of a broadcast.
#include "algorithms/steps/broadcast_levels.hpp"

#include <algorithm>
#include <deque>

#include "algorithms/steps/halving.hpp"
#include "algorithms/steps/level_trees.hpp"
#include "algorithms/steps/ring.hpp"
#include "algorithms/steps/tree.hpp"
#include "algorithms/steps/tree_blocks.hpp"

namespace plait {
namespace {

ChunkRange common(ChunkRange a, ChunkRange b) {
  const int first = std::max(a.first, b.first);
  return {first, std::max(0, std::min(a.end(), b.end()) - first)};
}

// ---- trees: whatever comes is passed on ----

template <TreesOf kTrees>
class TreesBroadcast : public BroadcastLevel {
 public:
  TreesBroadcast(PlanBuilder& builder, Carrier& carrier, const BroadcastShape& shape)
      : trees_(kTrees(static_cast<int>(shape.queues.size()), shape.level)),
        shapes_(shapes_of_trees(trees_, shape.queues, shape.range, shape.level)) {
    for (size_t i = 0; i < trees_.size(); ++i) {
      shapes_[i].zero_copy = shape.stores_to_peers;
      shapes_[i].calls = shape.calls;
      steps_.emplace_back(builder, carrier, trees_[i], shapes_[i]);
    }
  }

  Finish ahead(const Finish& finish) override {
    if (steps_.size() == 1) return steps_[0].ahead(finish);
    // One place cannot be ahead of several trees, so the first member gives each its piece.
    return {finish.places, [this, finish](int rank, ChunkRange range) {
              for (size_t i = 0; i < steps_.size(); ++i) {
                if (const ChunkRange piece = common(range, shapes_[i].range()); piece.count > 0) {
                  steps_[i].give(piece, finish);
                }
              }
              if (finish.stored) finish.stored(rank, range);
            }};
  }
  void follow(HeldByRank&, const Finish& finish) override { plait::follow(steps_, finish); }

 private:
  const std::vector<Tree> trees_;
  std::vector<TreeShape> shapes_;
  std::deque<BroadcastSteps> steps_;
};

// ---- a piece for each member, which an all-gather passes on ----

// The all-gather over all members, of which the first has all pieces.
class RingGather {
 public:
  RingGather(PlanBuilder& builder, Carrier& carrier, const BroadcastShape& shape)
      : ring_(builder, carrier, of(shape)) {}
  void call() { ring_.call_previous(); }
  void make(const HeldByRank& held, const Finish& finish) { ring_.all_gather(held, finish); }

 private:
  static RingSteps::Shape of(const BroadcastShape& shape) {
    RingSteps::Shape ring;
    ring.queues = shape.queues;
    ring.first_chunk = shape.range.first;
    ring.part_chunks = shape.range.count / static_cast<int>(shape.queues.size());
    ring.scatters = false;
    ring.stores_to_peers = shape.stores_to_peers;
    ring.first_has_all = true;
    return ring;
  }

  RingSteps ring_;
};

class DoublingGather {
 public:
  DoublingGather(PlanBuilder& builder, Carrier& carrier, const BroadcastShape& shape)
      : halving_(builder, carrier, of(shape)) {}
  void call() { halving_.call_peers(); }
  void make(const HeldByRank& held, const Finish& finish) { halving_.all_gather(held, finish); }

 private:
  static HalvingSteps::Shape of(const BroadcastShape& shape) {
    HalvingSteps::Shape halving = halving_over(shape.queues, shape.range, shape.stores_to_peers);
    halving.first_has_all = true;
    return halving;
  }

  HalvingSteps halving_;
};

// The scatter goes along a binomial tree, and begins when the first member has everything.
template <class Gather>
class ScatteredBroadcast : public BroadcastLevel {
 public:
  ScatteredBroadcast(PlanBuilder& builder, Carrier& carrier, const BroadcastShape& shape)
      : builder_(builder),
        carrier_(carrier),
        calls_(shape.calls),
        tree_(one_tree<add_binomial>(static_cast<int>(shape.queues.size()), shape.level)[0]),
        gather_(builder, carrier, shape) {
    scatter_.queues = {shape.queues};
    scatter_.first_chunk = shape.range.first;
    scatter_.part_chunks = shape.range.count / static_cast<int>(shape.queues.size());
    scatter_.direction = shape.level.direction.value_or(Direction::kLoad);
  }

  void follow(HeldByRank& held, const Finish& finish) override {
    const std::vector<QueueId>& queues = scatter_.queues[0];
    if (queues.size() == 1) return;
    if (calls_) gather_.call();
    scatter_along(builder_, carrier_, tree_, scatter_, held[queues[0].rank][0], finish);
    for (size_t x = 1; x < queues.size(); ++x) held[queues[x].rank] = {finish.places(queues[x].rank)[0]};
    gather_.make(held, finish);
  }

 private:
  PlanBuilder& builder_;
  Carrier& carrier_;
  const bool calls_;
  const Tree tree_;
  TreeShape scatter_;
  Gather gather_;
};

template <class Made>
std::unique_ptr<BroadcastLevel> made_as(PlanBuilder& builder, Carrier& carrier, const BroadcastShape& shape) {
  return std::make_unique<Made>(builder, carrier, shape);
}

template <const RootedTrees& kTrees>
BroadcastAlgorithm broadcast_along() {
  return {kTrees.count, made_as<TreesBroadcast<kTrees.make>>, true};
}

int64_t piece_of_each(int members) { return members; }

}  // namespace

BroadcastAlgorithm broadcast_by_binomial() { return broadcast_along<kBinomialTree>(); }
BroadcastAlgorithm broadcast_by_chain() { return broadcast_along<kChain>(); }
BroadcastAlgorithm broadcast_by_star() { return broadcast_along<kStar>(); }
BroadcastAlgorithm broadcast_by_double_binary_tree() { return broadcast_along<kDoubleBinaryTree>(); }
BroadcastAlgorithm broadcast_by_scatter_ring() { return {piece_of_each, made_as<ScatteredBroadcast<RingGather>>}; }
BroadcastAlgorithm broadcast_by_scatter_recursive_doubling() {
  return {piece_of_each, made_as<ScatteredBroadcast<DoublingGather>>};
}

}  // namespace plait
