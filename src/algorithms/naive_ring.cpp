// Naive ring: whole messages go round, reduced on the way (NVG-25).
#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/tree.hpp"

namespace plait {

Algorithm naive_ring();

namespace {

// Every rank adds its input to what comes from the previous one, and passes the sum on; then the result goes round.
// Four ranks:
//
//     reduce      r0 --r0--> r1 --r0..r1--> r2 --r0..r2--> r3
//     broadcast   r3 --all--> r0 --all--> r1 --all--> r2
//
// One rank works at a time, with all of the message: what ring, which keeps every link busy, is compared with.
//
// Steps: 2(p-1).
// Bytes sent per rank: 2 M; M by rank p-2, and by rank p-1.
// Scratch slots, each M: at most 2, one for the reduce and one for the broadcast; 3 beside a rank on another node.
// When: to compare with; others move as much in fewer steps, or less in as many.
//
// Makes the path in the direction of the ring that ends at the last rank (upwards), or begins there (downwards).
Tree path(int ranks, bool upwards) {
  const int last = ranks - 1, step = upwards ? -1 : 1;
  Tree tree(last, ranks);
  for (int i = 0; i < last; ++i) tree.add(wrap(last + i * step, ranks), wrap(last + (i + 1) * step, ranks));
  return tree;
}

Plan make_naive_ring(const AlgorithmArguments& arguments) {
  check_arguments(naive_ring(), arguments);
  PlanBuilder builder = start_plan(naive_ring(), arguments, 1);
  Carrier carrier(builder, arguments.node_of);
  TreeShape shape;
  shape.queues = {add_queues(builder, arguments)};
  shape.direction = arguments.direction;
  const Tree up = path(arguments.ranks, true), down = path(arguments.ranks, false);
  const std::vector<Held> at_last = reduce_to_root(builder, carrier, up, shape, all_inputs(arguments.ranks));
  broadcast_along(builder, carrier, down, shape, at_last, to_outputs());
  return builder.finish();
}

std::vector<AlgorithmArguments> naive_ring_candidates(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy) return {};
  std::vector<AlgorithmArguments> all = with_parts(machine, {1});
  all[0].direction = on_gpus(machine) ? Direction::kStore : Direction::kLoad;
  return all;
}

}  // namespace

Algorithm naive_ring() {
  return {.name = "naive_ring",
          .summary = "the whole message goes round and is reduced on the way; 2(p-1) steps, to compare with",
          .source = "NVG-25",
          .collectives = {Collective::kAllReduce},
          .uses = {.direction = true},
          .make = make_naive_ring,
          .candidates = naive_ring_candidates};
}

}  // namespace plait
