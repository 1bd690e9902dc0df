// Recursive doubling: whole messages between partners at distances 1, 2, 4, … (NVG-11).
#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/doubling.hpp"

namespace plait {

Algorithm recursive_doubling();

namespace {

// Partners exchange what they have, and both combine it: after k steps every rank has the sum of 2^k ranks. Eight
// ranks:
//
//     r0 <--> r1   r2 <--> r3   r4 <--> r5   r6 <--> r7        distance 1
//     r0 <--> r2   r1 <--> r3   r4 <--> r6   r5 <--> r7        distance 2
//     r0 <--> r4   r1 <--> r5   r2 <--> r6   r3 <--> r7        distance 4
//
// With p = 2^k + m, the last m ranks first pass their input to rank - 2^k, and get the result back at the end
// (steps/doubling.hpp).
//
// Steps: k; 1 more if m > 0, and 2 more if m > 2^(k-1). A barrier, which moves nothing, uses dissemination instead:
//   ceil(log2 p).
// Bytes read per rank from others: k M; the partners of the last m ranks one M more, and those one M at the end.
// Scratch slots, each M: k for what a rank publishes (the last m ranks: 1), one more for a result to be passed on in a
//   staged plan, and one for each message that arrives from another node.
// When: small and medium messages over many ranks, several nodes.
Plan make_recursive_doubling(const AlgorithmArguments& arguments) {
  check_arguments(recursive_doubling(), arguments);
  PlanBuilder builder = start_plan(recursive_doubling(), arguments, 1);
  Carrier carrier(builder, arguments.node_of);
  const std::vector<QueueId> queues = add_queues(builder, arguments);
  if (arguments.collective == Collective::kBarrier) {
    carrier.disseminate(queues);
  } else {
    const bool stores_to_peers = arguments.access == Access::kZeroCopy;
    DoublingSteps steps(builder, carrier, {.queues = queues, .stores_to_peers = stores_to_peers});
    steps.all_reduce(all_inputs(arguments.ranks), to_outputs());
  }
  return builder.finish();
}

std::vector<AlgorithmArguments> recursive_doubling_candidates(const AlgorithmArguments& machine) {
  if (machine.collective == Collective::kBarrier && machine.access == Access::kZeroCopy) return {};
  return with_parts(machine, {1});
}

}  // namespace

Algorithm recursive_doubling() {
  return {.name = "recursive_doubling",
          .summary = "partners at distances 1, 2, 4, … exchange whole messages; log2 p steps",
          .source = "NVG-11, NVG-64",
          .collectives = {Collective::kAllReduce, Collective::kBarrier},
          .uses = {.zero_copy = true},
          .make = make_recursive_doubling,
          .candidates = recursive_doubling_candidates};
}

}  // namespace plait
