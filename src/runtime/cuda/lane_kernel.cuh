// The kernels of one type, for the files that make them: a file for each few types, so that they compile side by side.
#pragma once

#include "base/error.hpp"
#include "runtime/cuda/line_engine.cuh"
#include "runtime/cuda/packet_engine.cuh"
#include "runtime/cuda/signal_engine.cuh"
#include "runtime/lane_loop.hpp"

namespace plait {

template <DataType type>
__global__ void __launch_bounds__(kMostThreads, 1) run_signals(const __grid_constant__ SignalLaunch launch) {
  __shared__ std::byte* bases[kFirstScratchBase + kMostDeviceRanks];
  __shared__ int gave_up;
  Strand strand(launch, &gave_up);
  if (threadIdx.x == 0) gave_up = 0;
  __syncthreads();
  SignalEngine<type> engine(launch, strand, bases);
  for (uint64_t slice = blockIdx.x; slice < launch.slices; slice += gridDim.x) {
    const SliceProgram& part = slice + 1 < launch.slices ? launch.full[blockIdx.y] : launch.last[blockIdx.y];
    if (!strand.begin()) return;
    engine.begin_slice(slice);
    int next = 0;
    const LaneState state = advance_lane(launch.operations + part.first, part.count, next, engine);
    if (state != LaneState::kDone) return;
    __syncthreads();
    strand.end(part, slice + gridDim.x >= launch.slices);
  }
}

// Steps need no signals and no waits: whatever a wait guards, the flags do.
template <class Engine>
__global__ void __launch_bounds__(kMostThreads, 1) run_flagged(const __grid_constant__ FlaggedLaunch launch) {
  __shared__ int gave_up;
  Strand strand(launch, &gave_up);
  if (threadIdx.x == 0) gave_up = 0;
  __syncthreads();
  Engine engine(launch, strand);
  for (uint64_t slice = blockIdx.x; slice < launch.slices; slice += gridDim.x) {
    const SliceProgram& part = slice + 1 < launch.slices ? launch.full : launch.last;
    if (!strand.begin()) return;
    engine.begin_slice(slice);
    const uint64_t* words = launch.program + part.first;
    for (int i = 0; i < part.count; ++i) {
      const FlaggedStep step = *reinterpret_cast<const FlaggedStep*>(words);
      engine.perform(step, words + 1);
      words += 1 + step.sources + step.destinations;
    }
    if (!__syncthreads_and(engine.is_good())) return;
    strand.end(part, slice + gridDim.x >= launch.slices);
  }
}

template <DataType type>
const void* lane_kernel_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kSignals:
      return reinterpret_cast<const void*>(&run_signals<type>);
    case Protocol::kPackets:
      return reinterpret_cast<const void*>(&run_flagged<PacketEngine<type>>);
    case Protocol::kLines:
      return reinterpret_cast<const void*>(&run_flagged<LineEngine<type>>);
  }
  fail(ErrorCode::kInternal, "no kernel for protocol ", static_cast<int>(protocol));
}

}  // namespace plait
