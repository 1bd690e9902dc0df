// What several CTAs do between two barriers.
//
// All of them wait at the first barrier, where one signals for all; the last one that has done its share passes the
// second one. No CTA waits for another of its launch, so they need not be on the GPU at once.
#pragma once

#include "runtime/cuda/zero_copy/barrier.cuh"

namespace plait {

// What peers do once they have been signalled to.
enum class PeersThen {
  kWrite,  // where this rank has read: only that has to be over before
  kRead,   // what this rank has written
};

// Whether this CTA is the last one to come here; all its threads have read what they were to read. What it wrote, the
// end of the launch completes, where peers do not read it before that.
template <PeersThen then>
__device__ bool arrives_last(uint32_t* arrived) {
  auto* const is_last = ptx::shared_array<bool, 1>();
  __syncthreads();
  if (threadIdx.x == 0) {
    // The stores of this CTA are ordered before those of the CTA that signals, which releases both.
    if constexpr (then == PeersThen::kRead) __threadfence();
    *is_last = atomicAdd(arrived, 1) == gridDim.x * gridDim.y - 1;
    if constexpr (then == PeersThen::kRead) __threadfence();
    if (*is_last) *arrived = 0;
  }
  __syncthreads();
  return *is_last;
}

// `work`: this CTA's share. All threads, at least a warp for each queue.
template <PeersThen then, class Work>
__device__ void between_barriers(const BetweenBarriersLaunch& launch, const Work& work) {
  const unsigned barrier_queue = threadIdx.x / kWarpThreads;
  const bool leads = threadIdx.x % kWarpThreads == 0 && barrier_queue < launch.queues;
  Barrier barrier(launch, launch.before[leads ? barrier_queue : 0]);
  const bool signals = blockIdx.x == 0 && blockIdx.y == 0;
  if (!__syncthreads_and(!leads || barrier.pass(launch.before[barrier_queue], signals))) return;
  work();
  const BarrierQueue& first = launch.before[0];
  if (!arrives_last<then>(&launch.state->arrived[barrier_index(first.kind, first.peer)]) || !leads) return;
  if (barrier.pass(launch.after[barrier_queue])) barrier.leave();
}

}  // namespace plait
