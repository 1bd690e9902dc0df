// Broadcast of medium messages: a scatter along a binomial tree, then an all-gather by recursive doubling (AWA-16).
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/halving.hpp"
#include "algorithms/steps/scattered.hpp"

namespace plait {

Algorithm scatter_recursive_doubling();

namespace {

// The root cuts its message into p chunks, and every rank gets one; then partners exchange all that they have. Four
// ranks, root 0:
//
//       scatter                      all-gather
//     r0 --2 3--> r2 --3--> r3       r0 <-0 1-> r1   r2 <-2 3-> r3       a chunk each
//      '---1---> r1                  r0 <-----> r2   r1 <-----> r3       two chunks each
//
// With p = 2^k + m, the m ranks that remain give their chunk to a neighbour first, and get the message from it
// (steps/halving.hpp).
//
// Steps: 2k; up to 2 more if m > 0. Zero-copy takes one more, in which ranks say that they were called. On N nodes of n
//   ranks, the scatter takes floor(log2 N) + floor(log2 n) instead of k.
// Bytes sent per rank: (p-1)/p M in the all-gather, and in the scatter the chunks of a rank's subtree but its own, at
//   the root (p-1)/p M. The neighbour of a rank that remains sends it the message as well.
// Scratch slots, each M/p: those of scatter_message(), and what a rank gets by store, p-1 (zero-copy: none). As many
//   as it sends if they go to another node.
// When: medium messages that many ranks need, best a power of two of them; fewer steps than scatter_ring, but farther
//   partners.
Plan make_scatter_recursive_doubling(const AlgorithmArguments& arguments) {
  check_arguments(scatter_recursive_doubling(), arguments);
  PlanBuilder builder = start_plan(scatter_recursive_doubling(), arguments, arguments.ranks);
  Carrier carrier(builder, arguments.node_of);
  const bool zero_copy = arguments.access == Access::kZeroCopy;
  const std::vector<QueueId> queues = add_queues(builder, arguments);
  HalvingSteps steps(builder, carrier, halving_over(queues, {0, arguments.ranks}, zero_copy));
  if (zero_copy) steps.call_peers();
  steps.all_gather(scatter_message(builder, carrier, scatter_recursive_doubling(), arguments, queues), to_outputs());
  return builder.finish();
}

}  // namespace

Algorithm scatter_recursive_doubling() {
  return {.name = "scatter_recursive_doubling",
          .summary = "the root scatters its message, and partners double what they have; 2 log2 p steps",
          .source = "AWA-16",
          .collectives = {Collective::kBroadcast},
          .uses = {.direction = true, .zero_copy = true},
          .make = make_scatter_recursive_doubling,
          .candidates = scattered_candidates};
}

}  // namespace plait
