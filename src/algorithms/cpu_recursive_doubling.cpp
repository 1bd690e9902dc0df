// Recursive doubling by CPUs: short messages go to host memory, and CPUs exchange and combine them (NVG-64).
#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/doubling.hpp"
#include "algorithms/steps/host_copies.hpp"

namespace plait {

Algorithm cpu_recursive_doubling();

namespace {

// For a short message a launch on the GPU takes longer than the CPU's sum. Four ranks:
//
//     GPU of r0   GPU of r1   GPU of r2   GPU of r3
//         |           |           |           |         D2H
//        CPU <-----> CPU         CPU <-----> CPU        distance 1
//        CPU <-----------------> CPU                    distance 2
//                    CPU <-----------------> CPU
//         |           |           |           |         H2D
//
// The CPUs' part is `recursive_doubling`, for any p, with the inputs where partners read them.
//
// Steps: those of `recursive_doubling`; copies between a GPU and its own host memory are none.
// Bytes: those of `recursive_doubling`, from CPU to CPU, and M each way between every GPU and its host.
// Slots, in host memory, each M: one for the input, one for the result, one for each further sum that a rank publishes,
//   and one for each message that arrives from another node. No scratch.
// When: short messages over several nodes, in blocking calls that CPUs drive.
Plan make_cpu_recursive_doubling(const AlgorithmArguments& arguments) {
  check_arguments(cpu_recursive_doubling(), arguments);
  PlanBuilder builder = start_plan(cpu_recursive_doubling(), arguments, 1);
  Carrier carrier(builder, arguments.node_of, {.kind = PathKind::kHost, .landings = Buffer::kHost});
  HostCopies copies(builder, arguments, true);
  copies.copy_in();
  DoublingSteps steps(builder, carrier, {.queues = copies.cpus(), .slots = Buffer::kHost, .is_published = true});
  steps.all_reduce(copies.inputs(), {.places = [&](int rank) { return copies.results()[static_cast<size_t>(rank)]; }});
  copies.copy_out();
  return builder.finish();
}

std::vector<AlgorithmArguments> cpu_recursive_doubling_candidates(const AlgorithmArguments& machine) {
  if (!on_gpus(machine) || machine.access == Access::kZeroCopy) return {};
  return with_parts(machine, {1});
}

}  // namespace

Algorithm cpu_recursive_doubling() {
  return {.name = "cpu_recursive_doubling",
          .summary = "inputs go to host memory, CPUs combine them by recursive doubling, the sum goes back",
          .source = "NVG-64",
          .collectives = {Collective::kAllReduce},
          .uses = {},
          .make = make_cpu_recursive_doubling,
          .candidates = cpu_recursive_doubling_candidates};
}

}  // namespace plait
