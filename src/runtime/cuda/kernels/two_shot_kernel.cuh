// The kernels of one type, for the files that make them.
#pragma once

#include <iterator>

#include "runtime/cuda/kernels/two_shot_ll.cuh"
#include "runtime/cuda/kernels/two_shot_ll128.cuh"

namespace plait {

// What others need is on its way before anything is waited for, and has been read before anything is written that is
// taken: in place both may lie in the same memory.
template <class Primitives>
__global__ void __launch_bounds__(kMostThreads, 1) run_two_shot(const __grid_constant__ TwoShotLaunch launch) {
  ptx::await_launch_before();
  Channel channel(launch, static_cast<int>(blockIdx.x), 0, 1);
  const TwoShotSteps::Slice& slice = blockIdx.x + 1 < gridDim.x ? launch.steps.full : launch.steps.last;
  Primitives primitives(launch, slice);
  primitives.load();
  if (!channel.begin()) return;
  primitives.send(channel);
  __syncthreads();
  channel.leave(slice.end);
  const bool is_good = primitives.receive(channel);  // which lets the next launch begin
  if (!slice.end.needs_ack) return;
  if (!__syncthreads_and(is_good)) return;
  channel.end(slice.end);
}

template <DataType type, bool is_aligned>
const void* two_shot_ll_of(int words) {
  if (words == 1) return reinterpret_cast<const void*>(&run_two_shot<TwoShotLl<type, 1, is_aligned>>);
  if constexpr (is_aligned) {  // others last longer anyway
    if (words == 2) return reinterpret_cast<const void*>(&run_two_shot<TwoShotLl<type, 2, is_aligned>>);
  }
  return reinterpret_cast<const void*>(&run_two_shot<TwoShotLl<type, kMostWordsOfThread, is_aligned>>);
}

// Number `number` of kLinesAtOnce. Where words have eight elements, sums take so many registers that there are none for
// as many lines, and besides what is not whole does, none for as many places.
template <DataType type, size_t number, bool is_aligned>
struct LinesOf {
  static constexpr LinesAtOnce kAtOnce = kLinesAtOnce[number];
  static constexpr bool kIsNarrow = Pack<type, uint64_t>::kCount == 8;
  static constexpr int kLines = kIsNarrow && kAtOnce.lines > 2 ? (kAtOnce.lines + 1) / 2 : kAtOnce.lines;
  static constexpr int kPlaces = kIsNarrow && !is_aligned && kLines > 1 ? 2 : kAtOnce.places;
  using Primitives = TwoShotLl128<type, kLines, kPlaces, is_aligned>;
};

template <DataType type, bool is_aligned>
const void* two_shot_ll128_of(size_t number) {
  static_assert(std::size(kLinesAtOnce) == 4);
  if (number == 0)
    return reinterpret_cast<const void*>(&run_two_shot<typename LinesOf<type, 0, is_aligned>::Primitives>);
  if (number == 1)
    return reinterpret_cast<const void*>(&run_two_shot<typename LinesOf<type, 1, is_aligned>::Primitives>);
  if (number == 2)
    return reinterpret_cast<const void*>(&run_two_shot<typename LinesOf<type, 2, is_aligned>::Primitives>);
  return reinterpret_cast<const void*>(&run_two_shot<typename LinesOf<type, 3, is_aligned>::Primitives>);
}

}  // namespace plait
