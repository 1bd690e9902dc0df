// Work of several CTAs between two barriers.
//
// All CTAs wait at the first barrier, and one of them signals for all. The CTA that finishes its share last passes the
// second barrier. No CTA waits for another of its launch, so they need not run at the same time.
#pragma once

#include "runtime/cuda/zero_copy/barrier.cuh"

namespace plait {

// The next thing that peers do after the second barrier.
enum class PeersThen {
  kWrite,  // they write where this rank has read, so only its reads have to be over
  kRead,   // they read what this rank has written
};

// Whether this CTA is the last to come here. All its threads have finished their reads by then. Its writes complete
// with the launch, unless peers read them before (kRead).
template <PeersThen then>
__device__ bool arrives_last(uint32_t* arrived) {
  auto* const is_last = ptx::shared_array<bool, 1>();
  __syncthreads();
  if (threadIdx.x == 0) {
    // Orders this CTA's stores before the release store of the CTA that signals.
    if constexpr (then == PeersThen::kRead) __threadfence();
    *is_last = atomicAdd(arrived, 1) == gridDim.x * gridDim.y - 1;
    if constexpr (then == PeersThen::kRead) __threadfence();
    if (*is_last) *arrived = 0;
  }
  __syncthreads();
  return *is_last;
}

// Runs `work`, this CTA's share, between the barriers. For all threads; the CTA has at least a warp for each queue.
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
