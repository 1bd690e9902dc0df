// Broadcast of long messages: a scatter along a binomial tree, then an all-gather along a ring (AWA-15).
#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/ring.hpp"
#include "algorithms/steps/scattered.hpp"

namespace plait {

Algorithm scatter_ring();

namespace {

// The root cuts its message into p chunks, and every rank gets one; then the chunks go round. Four ranks, root 0:
//
//       scatter                      all-gather, its first step
//     r0 --2 3--> r2 --3--> r3       r0 --chunk 0--> r1 --chunk 1--> r2 --chunk 2--> r3
//      '---1---> r1                   ^-----------------chunk 3----------------------'
//
// The ring is in the order of the ranks, whichever is the root. It brings the root its own message once more.
//
// Steps: floor(log2 p) + p-1; zero-copy one more, in which each rank first tells the previous one that its output may
//   be stored to. On N nodes of n ranks, floor(log2 N) + floor(log2 n) instead of floor(log2 p).
// Bytes sent per rank: (p-1)/p M in the ring, and in the scatter the chunks of a rank's subtree but its own, at the
//   root (p-1)/p M. So no rank sends more than twice the message, however many ranks there are.
// Scratch slots, each M/p: those of scatter_message(), and p-1 in the ring (zero-copy or from another node: none). If
//   the next rank is on another node, some more for data that leaves.
// When: large messages that many ranks need, where a chain has too many steps for its parts; nodes in order.
Plan make_scatter_ring(const AlgorithmArguments& arguments) {
  check_arguments(scatter_ring(), arguments);
  PlanBuilder builder = start_plan(scatter_ring(), arguments, arguments.ranks);
  Carrier carrier(builder, arguments.node_of);
  RingSteps::Shape shape;
  shape.queues = add_queues(builder, arguments);
  shape.scatters = false;
  shape.stores_to_peers = arguments.access == Access::kZeroCopy;
  RingSteps steps(builder, carrier, shape);
  if (shape.stores_to_peers) steps.call_previous();
  steps.all_gather(scatter_message(builder, carrier, scatter_ring(), arguments, shape.queues), to_outputs());
  return builder.finish();
}

}  // namespace

Algorithm scatter_ring() {
  return {.name = "scatter_ring",
          .summary = "the root scatters its message, and a ring gathers it everywhere; at most 2 M a rank, any p",
          .source = "AWA-15",
          .collectives = {Collective::kBroadcast},
          .uses = {.direction = true, .zero_copy = true},
          .make = make_scatter_ring,
          .candidates = scattered_candidates};
}

}  // namespace plait
