// The kernels of one type, for the files that make them: a file for each few types, so that they compile side by side.
#pragma once

#include "base/error.hpp"
#include "runtime/cuda/line_engine.cuh"
#include "runtime/cuda/packet_engine.cuh"
#include "runtime/cuda/signal_engine.cuh"
#include "runtime/lane_loop.hpp"

namespace plait {

template <class Engine>
__global__ void __launch_bounds__(kMostThreads, 1) run_lane(const __grid_constant__ typename Engine::Launch launch) {
  __shared__ std::byte* bases[kFirstScratchBase + kMostDeviceRanks];
  __shared__ int gave_up;
  if (threadIdx.x == 0) gave_up = 0;
  __syncthreads();
  Strand strand(launch, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(gridDim.y),
                &gave_up);
  Engine engine(strand, bases);
  for (uint64_t slice = blockIdx.x; slice < launch.slices; slice += gridDim.x) {
    const SliceProgram& part = slice + 1 < launch.slices ? launch.full[blockIdx.y] : launch.last[blockIdx.y];
    if (!strand.begin()) return;
    engine.begin_slice(slice);
    int next = 0;
    const LaneState state = advance_lane(launch.operations + part.first, part.count, next, engine);
    if (state != LaneState::kDone || !engine.finish_slice()) return;
    strand.end(part, slice + gridDim.x >= launch.slices);
  }
}

template <DataType type>
const void* lane_kernel_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kSignals:
      return reinterpret_cast<const void*>(&run_lane<SignalEngine<type>>);
    case Protocol::kPackets:
      return reinterpret_cast<const void*>(&run_lane<PacketEngine<type>>);
    case Protocol::kLines:
      return reinterpret_cast<const void*>(&run_lane<LineEngine<type>>);
  }
  fail(ErrorCode::kInternal, "no kernel for protocol ", static_cast<int>(protocol));
}

}  // namespace plait
