// Calls of one step with packets: a group of threads for each word, each of which looks after one place of it, and so
// of kWords words. `is_whole`: as ShortProgram says.
#pragma once

#include "runtime/cuda/caller_memory.cuh"
#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/packets.cuh"
#include "runtime/cuda/short_kernel.hpp"
#include "runtime/cuda/strand.cuh"

namespace plait {

// Of a group's threads, in the order of places.
template <DataType type>
__device__ uint64_t sum_of_group(uint64_t bits, int addends, int group) {
  using Word = Pack<type, uint64_t>;
  typename Word::Accumulator sum[Word::kCount], next[Word::kCount];
  Word(__shfl_sync(kWholeWarp, bits, 0, group)).widen(sum);
#pragma unroll 1
  for (int i = 1; i < addends; ++i) {
    Word(__shfl_sync(kWholeWarp, bits, i, group)).widen(next);
    add(sum, next);
  }
  Word result;
  result.narrow(sum);
  return result.bits;
}

template <DataType type, int kWords, bool is_whole>
class ShortPackets {
 public:
  __device__ ShortPackets(const ShortLaunch& launch, const ShortSteps::Slice& slice)
      : launch_(launch),
        place_(slice.places[0][threadIdx.x & ((1u << launch.steps.group_shift) - 1)]),
        most_(slice.most),
        combined_(slice.taken[0].combined),
        callers_at_(blockIdx.x * launch.slice_bytes) {}

  // Loads what is the caller's; it need not have come when this returns.
  __device__ void load() {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      given_[w] = load(ShortPlace::kGiven, w);
      taken_[w] = load(ShortPlace::kTaken, w);
    }
  }

  // After the strand has begun an epoch.
  __device__ void give(const Strand& strand) {
    flag_ = packets::flag_of(strand.epoch());
    packets_at_ = strand.packets_from_first();
    const uint64_t to = place_.addresses[ShortPlace::kGivenTo];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if (!exists(w)) continue;
      if (is_flagged(to)) packets::store(packet(ShortPlace::kGivenTo, w), given_[w], flag_);
      if (is_callers(to)) store(ShortPlace::kGivenTo, w, given_[w]);
    }
  }

  // Lets the next launch begin. False: given up.
  __device__ bool take(const Strand& strand) {
    const bool takes_packets = is_flagged(place_.addresses[ShortPlace::kTaken]);
    const bool has_output = place_.addresses[ShortPlace::kTakenTo] != 0;
    bool came[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) came[w] = !takes_packets || !exists(w);
    uint32_t seen = 0;
    Patience patience;
    for (;;) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        if (came[w]) continue;
        const packets::Halves halves = packets::load(packet(ShortPlace::kTaken, w));
        came[w] = halves.carry(flag_);
        seen = halves.flag();
        taken_[w] = halves.data();
      }
      // At every look, so that the code is there when the last has come.
      uint64_t results[kWords];
      bool all_came = true;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        results[w] =
            combined_ == 0 ? taken_[w] : sum_of_group<type>(taken_[w], combined_, 1 << launch_.steps.group_shift);
        all_came = all_came && came[w];
      }
      if (__all_sync(kWholeWarp, all_came)) {
        let_next_launch_begin_after_first_warp();
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          if (has_output && exists(w)) store(ShortPlace::kTakenTo, w, results[w]);
        }
        return true;
      }
      if (!__any_sync(kWholeWarp, patience.is_over(launch_.self))) continue;
      if (!all_came) strand.give_up_on_data(place_.addresses[ShortPlace::kTaken], seen);
      return false;
    }
  }

 private:
  using Word = Pack<type, uint64_t>;

  __device__ uint32_t word(int w) const { return (threadIdx.x + w * blockDim.x) >> launch_.steps.group_shift; }
  __device__ bool exists(int w) const { return word(w) < most_.words; }

  __device__ uint64_t load(ShortPlace::Field field, int w) const {
    // Without branches, so that nothing keeps these loads from being under way together with that of the strand's
    // state.
    const bool loads = is_callers(place_.addresses[field]) & exists(w);
    const std::byte* const from = callers_word(field, w);
    if constexpr (!is_whole) return load_elements<Word>(from, 0, loads ? elements(w) : 0);
    uint64_t bits = 0;
    if (loads) bits = *reinterpret_cast<const uint64_t*>(from);
    return bits;
  }

  __device__ void store(ShortPlace::Field field, int w, uint64_t bits) const {
    std::byte* const to = callers_word(field, w);
    if constexpr (is_whole) {
      *reinterpret_cast<uint64_t*>(to) = bits;
    } else {
      store_elements<Word>(to, elements(w), bits);
    }
  }

  // Of a word that exists.
  __device__ int elements(int w) const {
    const uint32_t lacking = word(w) + 1 == most_.words ? most_.lacking : 0;
    return Word::kCount - static_cast<int>(lacking / sizeof(typename Word::Storage));
  }

  __device__ std::byte* callers_word(ShortPlace::Field field, int w) const {
    const uint64_t at = callers_at_ + word(w) * sizeof(uint64_t);
    return global_pointer(place_.addresses[field] + at);
  }

  __device__ std::byte* packet(ShortPlace::Field field, int w) const {
    const uint32_t at = packets_at_ + word(w) * static_cast<uint32_t>(kPacketBytes);
    return global_pointer(without_flag(place_.addresses[field]) + at);
  }

  const ShortLaunch& launch_;
  const ShortPlace& place_;
  const ShortSteps::Extent most_;
  const int combined_;         // places whose data is combined
  const uint64_t callers_at_;  // where the slice starts in the caller's memory
  uint32_t packets_at_ = 0, flag_ = 0;
  uint64_t given_[kWords], taken_[kWords];
};

}  // namespace plait
