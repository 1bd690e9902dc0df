// The two-shot kernels of one type, for the files that instantiate them.
#pragma once

#include <iterator>

#include "runtime/cuda/kernels/two_shot_ll.cuh"
#include "runtime/cuda/kernels/two_shot_ll128.cuh"

namespace plait {

// One CTA's share of a call that has a CTA for each of its `slices`. All data is sent before anything is awaited. It
// has been read before anything received is stored, since in place both may lie in the same memory. For all threads;
// false in some of them: given up.
template <class Primitives>
__device__ __forceinline__ bool perform_two_shot(const TwoShotLaunch& launch, unsigned slices) {
  Channel channel(launch, static_cast<int>(blockIdx.x), 0, 1);
  const TwoShotSteps::Slice& slice = blockIdx.x + 1 < slices ? launch.steps.full : launch.steps.last;
  Primitives primitives(launch, slice);
  primitives.load();
  if (!channel.begin()) return false;
  primitives.send(channel);
  __syncthreads();
  channel.leave(slice.end);
  const bool is_good = primitives.receive(channel);  // also lets the next launch start
  if (!slice.end.needs_ack) return is_good;
  if (!__syncthreads_and(is_good)) return false;
  channel.end(slice.end);
  return true;
}

template <class Primitives>
__global__ void __launch_bounds__(kMostThreads, 1) run_two_shot(const __grid_constant__ TwoShotLaunch launch) {
  ptx::await_launch_before();
  perform_two_shot<Primitives>(launch, gridDim.x);
}

// Sums of signed and unsigned integers have the same bits.
constexpr DataType without_sign(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return DataType::kUint8;
    case DataType::kInt16:
      return DataType::kUint16;
    case DataType::kInt32:
      return DataType::kUint32;
    case DataType::kInt64:
      return DataType::kUint64;
    default:
      return type;
  }
}
template <DataType type>
inline constexpr DataType kSumType = without_sign(type);
// Buffers of such elements are always aligned.
template <DataType type>
inline constexpr bool kIsWord = kSumType<type> == DataType::kUint64 || type == DataType::kFloat64;

// Entry `number` of kLinesAtOnce. If words have eight elements, sums leave no registers for as many lines and, if
// buffers are not aligned, for as many places.
template <DataType type, size_t number, bool is_aligned>
struct LinesOf {
  static constexpr LinesAtOnce kAtOnce = kLinesAtOnce[number];
  static constexpr bool kIsNarrow = Pack<type, uint64_t>::kCount == 8;
  static constexpr int kLines = kIsNarrow && kAtOnce.lines > 2 ? (kAtOnce.lines + 1) / 2 : kAtOnce.lines;
  static constexpr int kPlaces = kIsNarrow && !is_aligned && kLines > 1 ? 2 : kAtOnce.places;
  using Primitives = TwoShotLl128<type, kLines, kPlaces, is_aligned>;
};
template <DataType type, size_t number, bool is_aligned>
using TwoShotLl128Of = typename LinesOf<kSumType<type>, number, is_aligned || kIsWord<type>>::Primitives;

}  // namespace plait
