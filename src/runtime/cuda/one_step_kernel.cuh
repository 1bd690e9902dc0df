// The kernels of one type, for the files that make them.
#pragma once

#include <iterator>

#include "runtime/cuda/one_step_lines.cuh"
#include "runtime/cuda/one_step_packets.cuh"

namespace plait {

// What others need is on its way before anything is waited for, and has been read before anything is written that is
// taken: in place both may lie in the same memory.
template <class Engine>
__global__ void __launch_bounds__(kMostThreads, 1) run_one_step(const __grid_constant__ OneStepLaunch launch) {
  Strand strand(launch, 0, 1);
  Engine engine(launch, blockIdx.x + 1 < gridDim.x ? launch.step.full : launch.step.last);
  engine.load();
  if (!strand.begin()) return;
  engine.give(strand);
  __syncthreads();
  strand.leave(launch.step.end);
  const bool is_good = engine.take(strand);
  if (!launch.step.end.is_awaited) return;
  if (!__syncthreads_and(is_good)) return;
  strand.end(launch.step.end);
}

template <DataType type>
const void* one_step_packets_of(int words) {
  if (words == 1) return reinterpret_cast<const void*>(&run_one_step<OneStepPackets<type, 1>>);
  if (words == 2) return reinterpret_cast<const void*>(&run_one_step<OneStepPackets<type, 2>>);
  return reinterpret_cast<const void*>(&run_one_step<OneStepPackets<type, kMostWordsOfThread>>);
}

template <DataType type, size_t at_once>
const void* one_step_lines_with() {
  constexpr LinesAtOnce kAtOnce = kLinesAtOnce[at_once];
  return reinterpret_cast<const void*>(&run_one_step<OneStepLines<type, kAtOnce.lines, kAtOnce.places>>);
}

template <DataType type>
const void* one_step_lines_of(size_t at_once) {
  static_assert(std::size(kLinesAtOnce) == 4);
  if (at_once == 0) return one_step_lines_with<type, 0>();
  if (at_once == 1) return one_step_lines_with<type, 1>();
  if (at_once == 2) return one_step_lines_with<type, 2>();
  return one_step_lines_with<type, 3>();
}

}  // namespace plait
