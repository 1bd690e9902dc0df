// Binomial and k-nomial trees (AWA-13, AWA-14).
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/tree.hpp"
#include "algorithms/steps/tree_blocks.hpp"
#include "algorithms/steps/units.hpp"

namespace plait {

Algorithm binomial();

namespace {

constexpr int kMostRadix = 8;

// A broadcast or reduce is short for hierarchical(node: binomial, all: binomial).
//
// Position v (counted from the root) is a child of v without its lowest one bit. Eight ranks, root 0:
//
//             0                     broadcast: downwards, whole messages; the largest subtree is served first
//         / / |                     reduce: upwards; a rank combines its own input and all its children in one reduce
//        4  2  1                    scatter, gather: the same ways with the blocks of whole subtrees
//       / \  \                      Subtrees are contiguous: 4 {5, 6 {7}}
//      6   5  3
//      |
//      7
//
// With radix k it is a k-nomial tree: v is a child of v without its lowest digit other than 0, to base k. A rank then
// serves k-1 children at a time, and the tree is lower. Nine ranks, radix 3: 0 {3 {4, 5}, 6 {7, 8}, 1, 2}.
//
// On several nodes, one tree joins one rank of each node (the root on its own node, else the node's first rank).
// Another tree joins the ranks of each node, so that every node is entered once (AWA-11).
//
// Steps: floor(log2 p), the most one bits in a position: children fetch at the same time, or one rank stores to all of
//   them. Radix k: floor(log_k((k-1)(p-1) + 1)), which is at most ceil(log_k p). On N nodes of n ranks, the sum of the
//   steps of N and of n. Zero-copy takes one more: a signal of each child that it was called before a broadcast, or an
//   answer after a reduce (to the leaves, whose inputs are read in place).
// Bytes: every rank but the root receives M once (broadcast) or sends M once (reduce). In scatter and gather, the
//   blocks of a subtree cross the edge above it.
// Scratch slots of M: a broadcast takes 1, by load on ranks with children on their node, by store on ranks whose parent
//   is on their node (zero-copy: none). A reduce by load takes 1 except at the root (none on leaves if zero-copy or
//   below another node), by store 1 for each child; and 1 for each child on another node.
// When: small messages, many ranks, several nodes; a larger radix where a step costs more than its bytes. parts: they
//   follow one another down the tree.
std::vector<Level> levels(int radix) {
  return {{.reach = Reach::kNode, .algorithm = "binomial", .radix = radix},
          {.reach = Reach::kAll, .algorithm = "binomial", .radix = radix}};
}

bool moves_blocks(Collective collective) {
  return collective == Collective::kGather || collective == Collective::kScatter;
}

// Zero-copy, a broadcast goes by store and a reduction by load: the other way round there is nothing to save.
Direction zero_copy_direction(Collective collective) {
  return collective == Collective::kBroadcast ? Direction::kStore : Direction::kLoad;
}

Plan make_binomial(const AlgorithmArguments& arguments) {
  check_arguments(binomial(), arguments);
  if (arguments.radix < 2 || arguments.radix > kMostRadix) {
    refuse(binomial(), "radix ", arguments.radix, " is not from 2 to ", kMostRadix);
  }
  const bool zero_copy = arguments.access == Access::kZeroCopy;
  if (moves_blocks(arguments.collective) && (zero_copy || arguments.parts > 1)) {
    refuse(binomial(), "a ", name(arguments.collective), " takes no parts, and passes through the library's memory");
  }
  if (zero_copy && arguments.direction != zero_copy_direction(arguments.collective)) {
    refuse(binomial(), "a zero-copy ", name(arguments.collective), " goes by ",
           name(zero_copy_direction(arguments.collective)), ", not by ", name(arguments.direction));
  }
  PlanBuilder builder = start_plan(binomial(), arguments, arguments.parts);
  Carrier carrier(builder, arguments.node_of);
  TreeShape shape;
  shape.queues = {add_queues(builder, arguments)};
  shape.parts = arguments.parts;
  shape.direction = arguments.direction;
  shape.zero_copy = zero_copy;
  const Tree tree = tree_over(binomial(), arguments, levels(arguments.radix));
  if (arguments.collective == Collective::kBroadcast) {
    broadcast_along(builder, carrier, tree, shape, {input_of(arguments.root)});
  } else if (arguments.collective == Collective::kGather) {
    gather_along(builder, carrier, tree, shape);
  } else if (arguments.collective == Collective::kScatter) {
    scatter_along(builder, carrier, tree, shape);
  } else {
    reduce_along(builder, carrier, tree, shape, all_inputs(arguments.ranks), {output_of(arguments.root)});
  }
  return builder.finish();
}

std::vector<AlgorithmArguments> binomial_candidates(const AlgorithmArguments& machine) {
  const bool zero_copy = machine.access == Access::kZeroCopy, in_blocks = moves_blocks(machine.collective);
  if (in_blocks && zero_copy) return {};
  std::vector<AlgorithmArguments> all;
  for (const bool second : {false, true}) {
    const std::vector<int> parts = in_blocks ? std::vector{1} : second ? std::vector{1, 4} : std::vector{1, 2, 4, 8};
    for (AlgorithmArguments it : with_parts(machine, parts)) {
      it.direction = on_gpus(machine) != second ? Direction::kStore : Direction::kLoad;
      if (!zero_copy || it.direction == zero_copy_direction(machine.collective)) all.push_back(it);
    }
  }
  // A lower tree for small messages.
  for (const int radix : {3, 4, 8}) {
    if (machine.ranks <= radix || all.empty()) continue;
    all.push_back(all[0]);
    all.back().radix = radix;
  }
  return all;
}

}  // namespace

Algorithm binomial() {
  return {.name = "binomial",
          .summary = "a tree that doubles the ranks that have the message, or multiplies them by a radix; log2 p steps",
          .source = "AWA-13, AWA-14, AWA-11",
          .collectives = {Collective::kBroadcast, Collective::kReduce, Collective::kGather, Collective::kScatter},
          .uses = {.direction = true, .parts = true, .zero_copy = true, .radix = true},
          .make = make_binomial,
          .candidates = binomial_candidates};
}

}  // namespace plait
