// Host-staged: GPUs copy their inputs to host memory, CPUs combine them, and the sum goes back (TEM-12).
#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/carrier.hpp"
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
class HostStaged {
 public:
  explicit HostStaged(const AlgorithmArguments& arguments)
      : arguments_(arguments),
        builder_(start_plan(host_staged(), arguments, arguments.ranks)),
        carrier_(builder_, arguments.node_of, {.kind = PathKind::kHost, .landings = Buffer::kHost}),
        copiers_(add_queues(builder_, arguments)) {
    for (int rank = 0; rank < arguments.ranks; ++rank) {
      cpus_.push_back(builder_.add_queue(rank, Engine::kCpu));
      staged_.push_back({{builder_.take_host(rank, builder_.chunk_count()), 0}});
    }
  }

  Plan make() {
    copy_to_host();
    combine_on_cpus();
    copy_back();
    return builder_.finish();
  }

 private:
  void copy_to_host() {
    for (int rank = 0; rank < arguments_.ranks; ++rank) {
      builder_.copy(copiers_[rank], staged_[rank][0].place, input_of(rank), 0, builder_.chunk_count());
      builder_.wait(builder_.signal(copiers_[rank], cpus_[rank]));
    }
  }

  void combine_on_cpus() {
    RingSteps::Shape shape;
    shape.queues = cpus_;
    RingSteps(builder_, carrier_, shape).perform(staged_, {.places = [this](int rank) { return staged_[rank]; }});
  }

  void copy_back() {
    for (int rank = 0; rank < arguments_.ranks; ++rank) {
      builder_.wait(builder_.signal(cpus_[rank], copiers_[rank]));
      builder_.copy(copiers_[rank], output_of(rank), staged_[rank][0].place, 0, builder_.chunk_count());
    }
  }

  const AlgorithmArguments& arguments_;
  PlanBuilder builder_;
  Carrier carrier_;
  const std::vector<QueueId> copiers_;  // [rank]: next to its GPU
  std::vector<QueueId> cpus_;           // [rank]
  HeldByRank staged_;                   // in host memory: the input at first, the sum at last
};

Plan make_host_staged(const AlgorithmArguments& arguments) {
  check_arguments(host_staged(), arguments);
  return HostStaged(arguments).make();
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
