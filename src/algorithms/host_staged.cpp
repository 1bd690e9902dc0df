// Host-staged: GPUs copy their inputs to host memory, CPUs combine them, and the sum goes back (TEM-12).
#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/host_copies.hpp"
#include "algorithms/steps/ring.hpp"

namespace plait {

Algorithm host_staged();

namespace {

// MPI libraries that do not combine on GPUs do an all-reduce of GPU buffers so: Open MPI with UCX, MVAPICH2, Spectrum
// MPI (TEM-12, TEM-26). It is the baseline of designs that keep data on GPUs.
//
//     GPU of r0     input              output        GPU of r1     input              output
//                     | D2H              ^                           | D2H              ^
//                     v                  | H2D                       v                  | H2D
//     host of r0    copy == the CPU ==> sum          host of r1    copy == the CPU ==> sum
//                           ^     |                                      ^     |
//                           |     +------ a piece at each step ----------+     +---> CPU of the next rank
//                           +---- from the CPU of the rank before
//
// Nothing overlaps: a copy ends before the CPUs begin, and they end before the sum goes back. CPUs perform a ring,
// which is Open MPI's choice for long messages; each combines in host memory next to it, where the next one reads.
//
// Steps: those of `ring`, 2(p-1); copies between a GPU and its own host memory are none.
// Bytes: 2(p-1)/p M from CPU to CPU, and M each way between every GPU and its host.
// Slots, in host memory: M for the copy, which the sum takes the place of, and M for the pieces; from another node
//   (p-1)/p M for pieces, and (p-2)/p M where they leave to one. No scratch.
// When: never, but to compare with. On ranks without GPUs it is `ring` with two copies.
Plan make_host_staged(const AlgorithmArguments& arguments) {
  check_arguments(host_staged(), arguments);
  PlanBuilder builder = start_plan(host_staged(), arguments, arguments.ranks);
  Carrier carrier(builder, arguments.node_of, {.kind = PathKind::kHost, .landings = Buffer::kHost});
  HostCopies copies(builder, arguments, false);
  copies.copy_in();
  RingSteps::Shape shape;
  shape.queues = copies.cpus();
  const Finish in_place{.places = [&](int rank) { return copies.results()[static_cast<size_t>(rank)]; }};
  RingSteps(builder, carrier, shape).perform(copies.inputs(), in_place);
  copies.copy_out();
  return builder.finish();
}

std::vector<AlgorithmArguments> host_staged_candidates(const AlgorithmArguments& machine) {
  if (!on_gpus(machine) || machine.access == Access::kZeroCopy) return {};
  return with_parts(machine, {1});
}

}  // namespace

Algorithm host_staged() {
  return {.name = "host_staged",
          .summary = "inputs go to host memory, CPUs combine them in a ring, the sum goes back; to compare with",
          .source = "TEM-12",
          .collectives = {Collective::kAllReduce},
          .uses = {},
          .make = make_host_staged,
          .candidates = host_staged_candidates};
}

}  // namespace plait
