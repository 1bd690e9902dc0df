// Two-shot calls of one step with LL. A word has a group of threads, one for each place; a group handles kWords words.
// `is_aligned`: as in TwoShotProgram.
#pragma once

#include "runtime/cuda/device/elements.cuh"
#include "runtime/cuda/device/ll.cuh"
#include "runtime/cuda/device/user_buffer.cuh"
#include "runtime/cuda/kernels/channel.cuh"
#include "runtime/cuda/kernels/two_shot_kernel.hpp"

namespace plait {

// The sum of the words of a group's threads, in the order of places.
template <DataType type>
__device__ uint64_t sum_of_group(uint64_t bits, int addends, int group) {
  using Word = Pack<type, uint64_t>;
  typename Word::Accumulator sum[Word::kCount], next[Word::kCount];
  Word(__shfl_sync(kWholeWarp, bits, 0, group)).widen(sum);
#pragma unroll 1
  for (int i = 1; i < addends; ++i) {
    Word(__shfl_sync(kWholeWarp, bits, i, group)).widen(next);
    combine(Add{}, sum, next);
  }
  Word result;
  result.narrow(sum);
  return result.bits;
}

template <DataType type, int kWords, bool is_aligned>
class TwoShotLl {
 public:
  __device__ TwoShotLl(const TwoShotLaunch& launch, const TwoShotSteps::Slice& slice)
      : launch_(launch),
        place_(slice.places[0][threadIdx.x & ((1u << launch.steps.group_shift) - 1)]),
        most_(slice.most),
        combined_(slice.phases[0].combined),
        user_at_(blockIdx.x * launch.slice_bytes) {}

  // Starts loading from user buffers.
  __device__ void load() {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      sent_[w] = load(TwoShotPlace::kSend, w);
      received_[w] = load(TwoShotPlace::kReceive, w);
    }
  }

  // Call it after Channel::begin().
  __device__ void send(const Channel& channel) {
    flag_ = ll::flag_of(channel.epoch());
    ll_at_ = channel.ll_from_first();
    const uint64_t to = place_.addresses[TwoShotPlace::kSendTo];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if (!exists(w)) continue;
      if (is_flagged(to)) ll::store(ll_line(TwoShotPlace::kSendTo, w), sent_[w], flag_);
      if (is_user(to)) store(TwoShotPlace::kSendTo, w, sent_[w]);
    }
  }

  // Also lets the next launch start. False: given up.
  __device__ bool receive(const Channel& channel) {
    const bool receives_ll = is_flagged(place_.addresses[TwoShotPlace::kReceive]);
    const bool has_output = place_.addresses[TwoShotPlace::kReceiveTo] != 0;
    bool came[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) came[w] = !receives_ll || !exists(w);
    uint32_t seen = 0;
    BoundedSpin spin;
    for (;;) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        if (came[w]) continue;
        const ll::Halves halves = ll::load(ll_line(TwoShotPlace::kReceive, w));
        came[w] = halves.carry(flag_);
        seen = halves.flag();
        received_[w] = halves.data();
      }
      // Combines at every poll, so that the code has been fetched when the last word arrives.
      uint64_t results[kWords];
      bool all_came = true;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        results[w] =
            combined_ == 0 ? received_[w] : sum_of_group<type>(received_[w], combined_, 1 << launch_.steps.group_shift);
        all_came = all_came && came[w];
      }
      if (__all_sync(kWholeWarp, all_came)) {
        let_next_launch_begin_after_first_warp();
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          if (has_output && exists(w)) store(TwoShotPlace::kReceiveTo, w, results[w]);
        }
        return true;
      }
      if (!__any_sync(kWholeWarp, spin.is_over(launch_.self))) continue;
      if (!all_came) channel.give_up_on_data(place_.addresses[TwoShotPlace::kReceive], seen);
      return false;
    }
  }

 private:
  using Word = Pack<type, uint64_t>;

  __device__ uint32_t word(int w) const { return (threadIdx.x + w * blockDim.x) >> launch_.steps.group_shift; }
  __device__ bool exists(int w) const { return word(w) < most_.words; }

  __device__ uint64_t load(TwoShotPlace::Field field, int w) const {
    // There is no branch, so that these loads are under way together with the load of the channel's state.
    const bool loads = is_user(place_.addresses[field]) & exists(w);
    const std::byte* const from = user_word(field, w);
    if constexpr (!is_aligned) return load_elements<Word>(from, 0, loads ? elements(w) : 0);
    uint64_t bits = 0;
    if (loads) bits = *reinterpret_cast<const uint64_t*>(from);
    return bits;
  }

  __device__ void store(TwoShotPlace::Field field, int w, uint64_t bits) const {
    std::byte* const to = user_word(field, w);
    if constexpr (is_aligned) {
      *reinterpret_cast<uint64_t*>(to) = bits;
    } else {
      store_elements<Word>(to, elements(w), bits);
    }
  }

  // How many elements a word has, which must exist.
  __device__ int elements(int w) const {
    const uint32_t lacking = word(w) + 1 == most_.words ? most_.lacking : 0;
    return Word::kCount - static_cast<int>(lacking / sizeof(typename Word::Storage));
  }

  __device__ std::byte* user_word(TwoShotPlace::Field field, int w) const {
    const uint64_t at = user_at_ + word(w) * sizeof(uint64_t);
    return global_pointer(place_.addresses[field] + at);
  }

  __device__ std::byte* ll_line(TwoShotPlace::Field field, int w) const {
    const uint32_t at = ll_at_ + word(w) * static_cast<uint32_t>(kLlLineBytes);
    return global_pointer(without_flag(place_.addresses[field]) + at);
  }

  const TwoShotLaunch& launch_;
  const TwoShotPlace& place_;
  const TwoShotSteps::Extent most_;
  const int combined_;      // how many places are combined
  const uint64_t user_at_;  // offset of the slice in user buffers
  uint32_t ll_at_ = 0, flag_ = 0;
  uint64_t sent_[kWords], received_[kWords];
};

}  // namespace plait
