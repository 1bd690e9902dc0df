// Copies of whole messages between GPUs and the host memory next to them, around what CPUs do there.
#pragma once

#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

// Every rank has a queue next to its GPU, which copies, and one of its CPU. A copy ends before the CPU begins, and the
// CPU ends before the result goes back.
class HostCopies {
 public:
  // `apart`: the result has a place of its own in host memory; else it takes that of the input.
  HostCopies(PlanBuilder& builder, const AlgorithmArguments& arguments, bool apart);

  // Every CPU has its rank's input.
  void copy_in();
  // Every rank has the result of its CPU.
  void copy_out();

  const std::vector<QueueId>& cpus() const { return cpus_; }  // [rank]
  const HeldByRank& inputs() const { return inputs_; }        // in host memory
  const HeldByRank& results() const { return results_; }      // in host memory

 private:
  PlanBuilder& builder_;
  const std::vector<QueueId> copiers_;  // [rank]
  std::vector<QueueId> cpus_;
  HeldByRank inputs_, results_;
};

}  // namespace plait
