// The kernels of one type, for the files that make them: a file for each few types, so that they compile side by side.
#pragma once

#include "base/error.hpp"
#include "runtime/cuda/line_engine.cuh"
#include "runtime/cuda/packet_engine.cuh"
#include "runtime/cuda/signal_engine.cuh"
#include "runtime/lane_loop.hpp"

namespace plait {

template <DataType type, bool is_aligned>
__global__ void __launch_bounds__(kMostThreads, 1) run_signals(const __grid_constant__ SignalLaunch launch) {
  machine::await_launch_before();
  std::byte** const bases = machine::shared_array<std::byte*, kFirstScratchBase + kMostDeviceRanks>();
  Strand strand(launch, launch.first_strand + static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y),
                static_cast<int>(gridDim.y));
  SignalEngine<type, is_aligned> engine(launch, strand, bases);
  for (uint64_t slice = blockIdx.x; slice < launch.slices; slice += gridDim.x) {
    const bool is_strands_last = slice + gridDim.x >= launch.slices;
    const SliceProgram& part = !is_strands_last            ? launch.full[blockIdx.y]
                               : slice + 1 < launch.slices ? launch.ending[blockIdx.y]
                                                           : launch.last[blockIdx.y];
    const bool follows_two_of_this_launch = slice >= blockIdx.x + uint64_t{2} * gridDim.x;
    if (!(follows_two_of_this_launch ? strand.begin_after(part.predecessors) : strand.begin())) return;
    engine.begin_slice(slice);
    int next = 0;
    const DeviceOperation* const operations = launch.operations + part.first;
    // What is left then are signals, which wait for the stores before them. Who waits until this lane has read
    // everything need not wait for that.
    const int reading = part.count - (part.ends_with_signals ? 1 : 0);
    if (advance_lane(operations, reading, next, engine) != LaneState::kDone) return;
    if (is_strands_last) {
      machine::let_next_launch_begin();
      strand.leave(part.end);
    }
    // Ends all reads of scratch and of `bases`.
    __syncthreads();
    strand.end(part.end);
    if (part.ends_with_signals) engine.signal(operations[reading]);
  }
}

// Steps need no signals and no waits: whatever a wait guards, the flags do.
//
// A short launch lasts as long as what it does before its data leaves, and after that of others has come. So what the
// next launch goes on from is written after the first step, most often while data is on its way.
//
// An engine may load what is the caller's in begin_step(), of the first step before the epoch has begun; memory of the
// epoch it touches from begin_epoch() on.
template <class Engine>
__global__ void __launch_bounds__(kMostThreads, 1) run_flagged(const __grid_constant__ FlaggedLaunch launch) {
  machine::await_launch_before();
  Strand strand(launch, static_cast<int>(blockIdx.x), 0, 1);
  Engine engine(launch, strand);
  const auto slices = static_cast<uint32_t>(launch.slices);
  for (uint32_t slice = blockIdx.x;; slice += gridDim.x) {
    const bool is_last = slice + gridDim.x >= slices;
    const SliceProgram& part = slice + 1 < slices ? launch.full : launch.last;
    uint32_t step = part.first;
    engine.begin_slice(slice);
    engine.begin_step(step);
    if (!strand.begin()) return;
    engine.begin_epoch();
    for (;;) {
      engine.perform();
      if (step == part.first && is_last) {
        __syncthreads();
        strand.leave(part.end);
      }
      if (++step == static_cast<uint32_t>(part.first) + part.count) break;
      engine.begin_step(step);
    }
    if (is_last && engine.is_good()) let_next_launch_begin_after_first_warp();
    if (is_last && !part.end.is_awaited) return;
    if (!__syncthreads_and(engine.is_good())) return;
    strand.end(part.end);
    if (is_last) return;
  }
}

template <DataType type>
const void* lane_kernel_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kSignals:
      return reinterpret_cast<const void*>(&run_signals<type, true>);
    case Protocol::kPackets:
      return reinterpret_cast<const void*>(&run_flagged<PacketEngine<type>>);
    case Protocol::kLines:
      return reinterpret_cast<const void*>(&run_flagged<LineEngine<type>>);
  }
  fail(ErrorCode::kInternal, "no kernel for protocol ", static_cast<int>(protocol));
}

template <DataType type>
const void* unaligned_kernel_of() {
  return reinterpret_cast<const void*>(&run_signals<type, false>);
}

}  // namespace plait
