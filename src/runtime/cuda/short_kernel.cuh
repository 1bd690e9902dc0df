// The kernels of one type, for the files that make them.
#pragma once

#include <iterator>

#include "runtime/cuda/short_lines.cuh"
#include "runtime/cuda/short_packets.cuh"

namespace plait {

// What others need is on its way before anything is waited for, and has been read before anything is written that is
// taken: in place both may lie in the same memory.
template <class Engine>
__global__ void __launch_bounds__(kMostThreads, 1) run_short(const __grid_constant__ ShortLaunch launch) {
  machine::await_launch_before();
  Strand strand(launch, static_cast<int>(blockIdx.x), 0, 1);
  const ShortSteps::Slice& slice = blockIdx.x + 1 < gridDim.x ? launch.steps.full : launch.steps.last;
  Engine engine(launch, slice);
  engine.load();
  if (!strand.begin()) return;
  engine.give(strand);
  __syncthreads();
  strand.leave(slice.end);
  const bool is_good = engine.take(strand);  // which lets the next launch begin
  if (!slice.end.is_awaited) return;
  if (!__syncthreads_and(is_good)) return;
  strand.end(slice.end);
}

template <DataType type>
const void* short_packets_of(int words) {
  if (words == 1) return reinterpret_cast<const void*>(&run_short<ShortPackets<type, 1>>);
  if (words == 2) return reinterpret_cast<const void*>(&run_short<ShortPackets<type, 2>>);
  return reinterpret_cast<const void*>(&run_short<ShortPackets<type, kMostWordsOfThread>>);
}

template <DataType type, size_t number>
const void* short_lines_with() {
  constexpr LinesAtOnce kAtOnce = kLinesAtOnce[number];
  // Where words have eight elements, sums take so many registers that there are none for as many lines.
  constexpr bool kFits = kAtOnce.lines < 3 || Pack<type, uint64_t>::kCount < 8;
  constexpr int kLines = kFits ? kAtOnce.lines : (kAtOnce.lines + 1) / 2;
  return reinterpret_cast<const void*>(&run_short<ShortLines<type, kLines, kAtOnce.places>>);
}

template <DataType type>
const void* short_lines_of(size_t number) {
  static_assert(std::size(kLinesAtOnce) == 4);
  if (number == 0) return short_lines_with<type, 0>();
  if (number == 1) return short_lines_with<type, 1>();
  if (number == 2) return short_lines_with<type, 2>();
  return short_lines_with<type, 3>();
}

}  // namespace plait
