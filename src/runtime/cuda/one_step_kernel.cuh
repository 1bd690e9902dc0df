// The kernel of one type, for the files that make them.
#pragma once

#include "runtime/cuda/caller_memory.cuh"
#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/one_step_kernel.hpp"
#include "runtime/cuda/packets.cuh"
#include "runtime/cuda/strand.cuh"

namespace plait {

// Of a group's threads, in the order of places.
template <DataType type>
__device__ uint64_t sum_of_group(uint64_t bits, int addends, int group) {
  using Word = Pack<type, uint64_t>;
  typename Word::Accumulator sum[Word::kCount], next[Word::kCount];
  Word(__shfl_sync(kWarp, bits, 0, group)).widen(sum);
#pragma unroll 1
  for (int i = 1; i < addends; ++i) {
    Word(__shfl_sync(kWarp, bits, i, group)).widen(next);
#pragma unroll
    for (int e = 0; e < Word::kCount; ++e) sum[e] = combine_sum(sum[e], next[e]);
  }
  Word result;
  result.narrow(sum);
  return result.bits;
}

// A slice; strand.begin() has returned true. All threads of a CTA. What threads of a warp give is on its way before any
// of them waits, and nothing is written to the caller's memory before all of its words here have been read. False:
// given up.
template <DataType type>
__device__ bool perform_one_step(const OneStepLaunch& launch, Strand& strand, const OneStepPlace& place, bool exists,
                                 uint64_t given, uint64_t bits, uint64_t callers_at) {
  const auto epoch = static_cast<uint32_t>(strand.epoch());
  const uint32_t i = threadIdx.x >> launch.group_shift;
  const auto packets_at =
      static_cast<uint32_t>(BlockLayout::packets_at(strand.number(), strand.parity()) - BlockLayout::packets_at(0, 0)) +
      i * static_cast<uint32_t>(kPacketBytes);
  const auto packet = [&](uint64_t address) { return global_pointer((address & ~kFlaggedAddress) + packets_at); };
  const auto to = static_cast<int64_t>(exists ? place.addresses[OneStepPlace::kGivenTo] : 0);
  if (to < 0) packets::store(packet(static_cast<uint64_t>(to)), given, epoch);
  if (to > 0) *reinterpret_cast<uint64_t*>(global_pointer(static_cast<uint64_t>(to) + callers_at)) = given;
  const uint64_t taken_to = exists ? place.addresses[OneStepPlace::kTakenTo] : 0;
  auto* const output = reinterpret_cast<uint64_t*>(global_pointer(taken_to + callers_at));
  const std::byte* const from = packet(place.addresses[OneStepPlace::kTaken]);
  bool came = !exists || static_cast<int64_t>(place.addresses[OneStepPlace::kTaken]) >= 0;
  __syncthreads();
  strand.leave(launch.slice);
  uint32_t seen = 0;
  Patience patience;
  for (;;) {
    if (!came) {
      const packets::Halves halves = packets::load(from);
      came = halves.carry(epoch);
      seen = halves.flag();
      bits = halves.data();
    }
    // At every look, so that the code is there when the last has come.
    const uint64_t result =
        launch.combined == 0 ? bits : sum_of_group<type>(bits, launch.combined, 1 << launch.group_shift);
    if (__all_sync(kWarp, came)) {
      if (taken_to != 0) *output = result;
      return true;
    }
    if (!__any_sync(kWarp, patience.is_over(launch.self))) continue;
    if (!came) strand.give_up(StrandFailure::kTimedOut, -1, -1, 0, seen);
    return false;
  }
}

template <DataType type>
__global__ void __launch_bounds__(kMostThreads, 1) run_one_step(const __grid_constant__ OneStepLaunch launch) {
  Strand strand(launch, 0, 1);
  const OneStepProgram::Slice& slice = blockIdx.x + 1 < gridDim.x ? launch.full : launch.last;
  const OneStepPlace& place = slice.places[threadIdx.x & ((1u << launch.group_shift) - 1)];
  const uint32_t i = threadIdx.x >> launch.group_shift;
  const bool exists = i < slice.words;
  const uint64_t callers_at = blockIdx.x * launch.slice_bytes + i * sizeof(uint64_t);
  const auto load = [&](OneStepPlace::Field field) {
    const auto from = static_cast<int64_t>(place.addresses[field]);
    if (!exists || from <= 0) return uint64_t{0};
    return *reinterpret_cast<const uint64_t*>(global_pointer(static_cast<uint64_t>(from) + callers_at));
  };
  const uint64_t given = load(OneStepPlace::kGiven), bits = load(OneStepPlace::kTaken);
  if (!strand.begin()) return;
  const bool is_good = perform_one_step<type>(launch, strand, place, exists, given, bits, callers_at);
  if (!launch.slice.is_awaited) return;
  if (!__syncthreads_and(is_good)) return;
  strand.end(launch.slice);
}

template <DataType type>
const void* one_step_kernel_of() {
  return reinterpret_cast<const void*>(&run_one_step<type>);
}

}  // namespace plait
