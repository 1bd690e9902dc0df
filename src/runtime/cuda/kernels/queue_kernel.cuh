// The kernels of one type, for the files that instantiate them. Each file has few types, so that they compile in
// parallel.
#pragma once

#include "base/error.hpp"
#include "runtime/cuda/kernels/ll128_primitives.cuh"
#include "runtime/cuda/kernels/ll_primitives.cuh"
#include "runtime/cuda/kernels/simple_primitives.cuh"
#include "runtime/queue_loop.hpp"

namespace plait {

// For SimpleLaunch and LongLaunch. Queues of a long plan wait for all queues before they use memory again.
template <DataType type, bool is_aligned, class LaunchArgument = SimpleLaunch>
__global__ void __launch_bounds__(kMostThreads, 1) run_simple(const __grid_constant__ LaunchArgument launch) {
  ptx::await_launch_before();
  std::byte** const bases = ptx::shared_array<std::byte*, kFirstScratchBase + kMostDeviceRanks>();
  ChannelIn<typename LaunchArgument::Room> channel(launch, launch.first_channel + static_cast<int>(blockIdx.x),
                                                   static_cast<int>(blockIdx.y), static_cast<int>(gridDim.y));
  SimplePrimitives<type, is_aligned, LaunchArgument> primitives(launch, channel, bases);
  for (uint64_t slice = blockIdx.x; slice < launch.slices; slice += gridDim.x) {
    const bool is_channels_last = slice + gridDim.x >= launch.slices;
    const SliceProgram& part = !is_channels_last           ? launch.full[blockIdx.y]
                               : slice + 1 < launch.slices ? launch.ending[blockIdx.y]
                                                           : launch.last[blockIdx.y];
    const bool follows_two_of_this_launch = slice >= blockIdx.x + uint64_t{2} * gridDim.x;
    if (!(follows_two_of_this_launch ? channel.begin_after(part.predecessors) : channel.begin())) return;
    primitives.begin_slice(slice);
    int next = 0;
    const DeviceOperation* const operations = launch.operations + part.first;
    // Signals at the end are performed last: they wait for earlier stores, while a rank that waits until this queue has
    // read everything need not.
    const int reading = part.count - (part.ends_with_signals ? 1 : 0);
    if (advance_queue(operations, reading, next, primitives) != QueueState::kDone) return;
    if (is_channels_last) {
      ptx::let_next_launch_begin();
      channel.leave(part.end);
    }
    // After this barrier, all reads of scratch and of `bases` are over.
    __syncthreads();
    channel.end(part.end);
    if (part.ends_with_signals) primitives.signal(operations[reading]);
  }
}

// Steps need no signals and no waits, since flags guard whatever a wait would guard.
//
// The time of a short launch is what it does before its data leaves and after the others' data has arrived. So the
// state for the next launch is stored after the first step, most often while data is on its way.
//
// Primitives may load from user buffers in begin_step(), for the first step even before the epoch begins. They may
// touch the memory of the epoch from begin_epoch() on.
template <class Primitives>
__global__ void __launch_bounds__(kMostThreads, 1) run_ll(const __grid_constant__ LlLaunch launch) {
  ptx::await_launch_before();
  Channel channel(launch, static_cast<int>(blockIdx.x), 0, 1);
  Primitives primitives(launch, channel);
  const auto slices = static_cast<uint32_t>(launch.slices);
  for (uint32_t slice = blockIdx.x;; slice += gridDim.x) {
    const bool is_last = slice + gridDim.x >= slices;
    const SliceProgram& part = slice + 1 < slices ? launch.full : launch.last;
    uint32_t step = part.first;
    primitives.begin_slice(slice);
    primitives.begin_step(step);
    if (!channel.begin()) return;
    primitives.begin_epoch();
    for (;;) {
      primitives.perform();
      if (step == part.first && is_last) {
        __syncthreads();
        channel.leave(part.end);
      }
      if (++step == static_cast<uint32_t>(part.first) + part.count) break;
      primitives.begin_step(step);
    }
    if (is_last && primitives.is_good()) let_next_launch_begin_after_first_warp();
    if (is_last && !part.end.needs_ack) return;
    if (!__syncthreads_and(primitives.is_good())) return;
    channel.end(part.end);
    if (is_last) return;
  }
}

}  // namespace plait
