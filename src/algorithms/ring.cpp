// Ring: every rank exchanges data with its two neighbours only (UEN-06, NVG-28).
#include "algorithms/steps/ring.hpp"

#include "algorithms/steps/arguments.hpp"

namespace plait {

Algorithm ring();

namespace {

// Reduce-scatter, then all-gather, or one of the two. Four ranks; step 0 of each phase moves
//
//       reduce-scatter               all-gather
//     r0 --chunk 3--> r1          r0 --chunk 0--> r1          rank x sends chunk x - 1 - t, later x - t, in step t
//      ^               |           ^               |          (mod p), so that rank x reduces chunk x last
//   chunk 2         chunk 0     chunk 3         chunk 1
//      |               v           |               v
//     r3 <--chunk 1-- r2          r3 <--chunk 2-- r2
//
// The last reduction is fused with the first step of the all-gather, and every forward with its store to the output.
//
// Steps: all_reduce 2(p-1); reduce_scatter p-1; all_gather p-1, and one more with Access::kZeroCopy, in which each rank
//   first tells the previous one that its output may be stored to (in an all_reduce the first phase says so).
// Bytes sent per rank: 2(p-1)/p M for an all_reduce; (p-1) blocks for the others. No link carries more.
// Scratch slots: all_reduce p (p-1 with kZeroCopy or if the previous rank is on another node), each M/p; the others p-1
//   blocks (all_gather with kZeroCopy or from another node: none). If the next rank is on another node, p-2 slots more
//   for data that leaves. Every slot comes in `parts` parts.
// When: large messages, any number of ranks, slow or shared links between neighbours; several nodes.
// parts: of a chunk (UEN-08).
Plan make_ring(const AlgorithmArguments& arguments) {
  check_arguments(ring(), arguments);
  const int ranks = arguments.ranks;
  const Collective collective = arguments.collective;
  const int64_t pieces = has_rank_blocks(collective) ? 1 : ranks;  // in a block
  PlanBuilder builder = start_plan(ring(), arguments, pieces * arguments.parts);
  Carrier carrier(builder, arguments.node_of);
  RingSteps::Shape shape;
  shape.queues = add_queues(builder, arguments);
  shape.parts = arguments.parts;
  shape.scatters = collective != Collective::kAllGather;
  shape.gathers = collective != Collective::kReduceScatter;
  shape.stores_to_peers = arguments.access == Access::kZeroCopy;
  RingSteps steps(builder, carrier, shape);
  if (collective == Collective::kAllGather && shape.stores_to_peers) steps.call_previous();
  steps.perform(all_inputs(ranks), to_outputs());
  return builder.finish();
}

std::vector<AlgorithmArguments> ring_candidates(const AlgorithmArguments& machine) {
  return with_parts(machine, {1, 2, 4, 8});
}

}  // namespace

Algorithm ring() {
  return {.name = "ring",
          .summary = "each rank passes pieces to the next; least bytes, 2(p-1) steps",
          .source = "UEN-06, UEN-08, NVG-26..28",
          .collectives = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather},
          .uses = {.parts = true, .zero_copy = true},
          .make = make_ring,
          .candidates = ring_candidates};
}

}  // namespace plait
