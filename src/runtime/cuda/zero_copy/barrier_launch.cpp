// Turns the signals and waits of queues into arguments of barrier kernels.
#include "runtime/cuda/zero_copy/barrier_launch.hpp"

namespace plait {

void add_barriers(const CopyQueue& queue, uint64_t agreement, BetweenBarriersLaunch& launch) {
  if (queue.before.count == 0 && queue.after.count == 0) return;
  BarrierQueue &before = launch.before[launch.queues], &after = launch.after[launch.queues];
  ++launch.queues;
  before = queue.before;
  after = queue.after;
  if (before.count == 0) {  // the kernel passes it all the same, and takes kind and peer from it
    before = after;
    before.count = 0;
  }
  before.agreement = after.agreement = tag_of(agreement);
}

unsigned prepare_barriers(const CopyQueues& copies, BarrierQueue CopyQueue::* barrier,
                          std::span<const uint64_t> agreements, BarrierLaunch& launch) {
  unsigned queues = 0;
  for (size_t l = 0; l < copies.queues.size(); ++l) {
    const BarrierQueue& part = copies.queues[l].*barrier;
    if (part.count == 0) continue;
    launch.queues[queues] = part;
    launch.queues[queues++].agreement = tag_of(agreements[l]);
  }
  return queues;
}

}  // namespace plait
