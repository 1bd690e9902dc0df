// Spanning trees: as many as the machine's links have room for, each with its share of the message (BLK-03, BLK-21).
#include "algorithms/steps/spanning_trees.hpp"

#include <deque>
#include <vector>

#include "algorithms/steps/arguments.hpp"

namespace plait {

Algorithm spanning_trees();

namespace {

// A ring leaves links idle where ranks are not joined like a ring, and one tree uses p-1 links. So the links are
// divided among trees. Four fully connected ranks:
//
//     broadcast from r0, three trees             all_reduce, two trees, up and down
//
//     r0 -> r1 -> r2     r0 -> r2 -> r3               r1                  r2          (a tree of K4 has three links,
//            `--> r3            `--> r1             / |  \              /  |          and K4 has six)
//     r0 -> r3 -> r1                              r0  r2  r3 ...      r3   r0 ...
//            `--> r2
//
//   broadcast      trees from the root, packed one way, each with an equal share (Edmonds); K4: n/(3 b) (BLK-03)
//   reduce         the same, up
//   all_reduce     trees packed both ways (Nash-Williams, Tutte): up to the root of each, and down again; n/(tau b),
//   and
//                  no algorithm that reduces and broadcasts along trees needs less
//   all_gather     as many trees from each rank, packed one way, each with its share of that rank's block
//   reduce_scatter the same, up
//
// The shares are equal: where links differ or do not come out even, more trees share them, 24 at most. So the 16 links
// of a P100 DGX-1 carry 16 trees of 7 links, 7 on each link and way: tau = 16/7.
//
// Steps: the depth of the deepest tree, in an all_reduce twice that; at most p-1, or 2(p-1).
// Bytes: every tree carries its share over p-1 links, in an all_reduce up and down: (p-1) M or 2(p-1) M in all.
// Scratch: of each share what a tree of its own has, so M at most in each direction on a rank; all_gather and
//   reduce_scatter p blocks.
// When: long messages where ranks are joined by links of their own, few or unequal ones, and no two alike.
// parts: of each share; they follow one another down (and up) the tree.
// count: trees; of each rank where each is a root.
// Every tree has a queue of its own on each rank, in an all_reduce one up and one down, so no tree waits for another.

bool roots_everywhere(Collective collective) { return has_rank_blocks(collective); }

std::vector<Tree> packed(const AlgorithmArguments& arguments) {
  const int ranks = arguments.ranks, count = arguments.count;
  if (ranks == 1) return {Tree(0, 1)};
  if (arguments.collective == Collective::kAllReduce) return pack_spanning_trees(ranks, arguments.links, count).shapes;
  if (roots_everywhere(arguments.collective)) return pack_trees_from_all(ranks, arguments.links, count).shapes;
  return pack_trees_from(arguments.root, ranks, arguments.links, count).shapes;
}

// A plan's trees: tree t has the t-th share of the message. With a root on every rank, the trees of a rank follow one
// another, so that they have the shares of its block.
class AlongTrees {
 public:
  AlongTrees(const AlgorithmArguments& arguments, std::vector<Tree> trees)
      : arguments_(arguments),
        trees_(std::move(trees)),
        builder_(start_plan(spanning_trees(), arguments, int64_t{shares_of_block()} * arguments.parts)) {}

  Plan make() {
    const bool reduces = plait::reduces(arguments_.collective);
    const bool broadcasts = !reduces || arguments_.collective == Collective::kAllReduce;
    std::vector<Shape> shapes;
    for (size_t i = 0; i < trees_.size(); ++i) shapes.push_back(shape_of(static_cast<int>(i), reduces && broadcasts));
    // All trees go up before one goes down, so that leaves begin with work that waits for no rank.
    for (size_t i = 0; i < trees_.size() && reduces; ++i) reduce(trees_[i], shapes[i], broadcasts);
    for (size_t i = 0; i < trees_.size() && broadcasts; ++i) broadcast(trees_[i], shapes[i], reduces);
    return builder_.finish();
  }

 private:
  // A tree has these of its own: queues, and messages that wait for those of no other tree.
  struct Shape {
    TreeShape up, down;
    Carrier* carrier_up = nullptr;
    Carrier* carrier_down = nullptr;
    std::vector<SignalId> ready = {};  // of each part, at the root
  };

  int shares_of_block() const {
    const int trees = static_cast<int>(trees_.size());
    return roots_everywhere(arguments_.collective) ? trees / arguments_.ranks : trees;
  }

  Shape shape_of(int index, bool both_ways) {
    Shape shape;
    shape.up.queues = {add_queues(builder_, arguments_)};
    shape.up.first_chunk = index * arguments_.parts;
    shape.up.parts = arguments_.parts;
    shape.up.direction = arguments_.direction;
    shape.down = shape.up;
    shape.carrier_up = shape.carrier_down = &carriers_.emplace_back(builder_, arguments_.node_of);
    if (!both_ways) return shape;
    shape.down.queues = {add_queues(builder_, arguments_)};
    shape.carrier_down = &carriers_.emplace_back(builder_, arguments_.node_of);
    return shape;
  }

  void reduce(const Tree& tree, Shape& shape, bool goes_down) {
    if (goes_down) {
      shape.up.after_root = [&](int part) {
        shape.ready.push_back(builder_.signal(shape.up.queue(part, tree.root()), shape.down.queue(part, tree.root())));
      };
    }
    reduce_along(builder_, *shape.carrier_up, tree, shape.up, all_inputs(arguments_.ranks), {output_of(tree.root())});
  }

  void broadcast(const Tree& tree, Shape& shape, bool came_up) {
    if (came_up) {
      shape.down.before_root = [&](int part) { builder_.wait(shape.ready[static_cast<size_t>(part)]); };
    }
    broadcast_along(builder_, *shape.carrier_down, tree, shape.down,
                    {came_up ? output_of(tree.root()) : input_of(tree.root())});
  }

  const AlgorithmArguments& arguments_;
  const std::vector<Tree> trees_;
  PlanBuilder builder_;
  std::deque<Carrier> carriers_;
};

Plan make_spanning_trees(const AlgorithmArguments& arguments) {
  check_arguments(spanning_trees(), arguments);
  check_links_join_all(spanning_trees(), arguments);
  return AlongTrees(arguments, packed(arguments)).make();
}

std::vector<AlgorithmArguments> spanning_trees_candidates(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy || machine.ranks < 2 || !links_join_all(machine)) return {};
  std::vector<AlgorithmArguments> all = with_parts(machine, {16, 8, 4, 2, 1});
  for (AlgorithmArguments& it : all) it.direction = on_gpus(machine) ? Direction::kStore : Direction::kLoad;
  all.push_back(in_both_directions(with_parts(machine, {4})).back());  // the tuner goes on from there
  return all;
}

}  // namespace

Algorithm spanning_trees() {
  return {.name = "spanning_trees",
          .summary = "as many trees as links have room for, each with its share of the message",
          .source = "BLK-03, BLK-21",
          .collectives = {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                          Collective::kReduceScatter, Collective::kAllGather},
          .uses = {.direction = true, .parts = true, .count = true},
          .make = make_spanning_trees,
          .candidates = spanning_trees_candidates};
}

}  // namespace plait
