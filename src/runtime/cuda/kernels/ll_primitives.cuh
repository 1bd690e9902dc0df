// Performs steps with the LL protocol (ll.cuh): a reader polls a line until both of its flags are those of this epoch.
// Signals and waits therefore need not be performed, and no warp waits for another while data is on its way.
//
// A group of threads of one warp handles eight bytes of a chunk in every step. Each thread serves one source and one
// destination, so that all are under way at once with little code. Code size matters because such a launch lasts as
// long as its longest chain of instructions, and code that runs only once has to be fetched first.
#pragma once

#include <cstring>

#include "runtime/cuda/device/elements.cuh"
#include "runtime/cuda/device/ll.cuh"
#include "runtime/cuda/device/user_buffer.cuh"
#include "runtime/cuda/kernels/channel.cuh"

namespace plait {

template <DataType type>
class LlPrimitives {
 public:
  using Word = Pack<type, uint64_t>;
  using Accumulator = typename Word::Accumulator;

  __device__ LlPrimitives(const LlLaunch& launch, const Channel& channel)
      : launch_(launch),
        channel_(channel),
        shift_(launch.group_shift),
        place_(threadIdx.x & ((1u << launch.group_shift) - 1)),
        words_are_aligned_(launch.words_are_aligned) {}

  __device__ void begin_slice(uint32_t slice) { user_at_ = slice * launch_.slice_bytes; }

  // Finds this thread's place in step `step`, and starts loading its first word if that is in a user buffer.
  __device__ void begin_step(uint32_t step) {
    __syncwarp();  // orders stores of a group's other threads in the previous step before this step's loads
    const LlPlace& place = launch_.places[(step << shift_) + place_];
    source_ = place.source;
    destination_ = place.destination;
    const uint64_t bits = *reinterpret_cast<const uint64_t*>(launch_.steps + step);  // all members in one load
    std::memcpy(static_cast<void*>(&step_), &bits, sizeof(bits));
    bits_ = load_user(threadIdx.x >> shift_);
  }

  // Call it after Channel::begin().
  __device__ void begin_epoch() {
    ll_at_ = channel_.ll_from_first();
    flag_ = ll::flag_of(channel_.epoch());
  }

  // All threads of a warp stay together: if each group voted and shuffled separately, the warp would execute that once
  // for each group.
  __device__ void perform() {
    const uint32_t at_once = blockDim.x >> shift_;
    uint32_t i = threadIdx.x >> shift_;
    for (uint32_t first = threadIdx.x / 32 * 32 >> shift_; first < step_.words && good_;) {
      const uint64_t bits = combined_when_there(i);
      if (i < step_.words && good_) store(i, bits);
      first += at_once;
      if (first >= step_.words) return;
      i += at_once;
      bits_ = load_user(i);
    }
  }

  // False: given up.
  __device__ bool is_good() const { return good_; }

 private:
  // This thread's word `i` if its source is in a user buffer, else 0.
  __device__ uint64_t load_user(uint32_t i) const {
    if (i >= step_.words || !is_user(source_)) return 0;
    const std::byte* const from = user_word(source_, i);
    if (__builtin_expect(words_are_aligned_ && step_.last_word_is_full, true))
      return *reinterpret_cast<const uint64_t*>(from);
    return load_word<Word>(from, elements_of(i), words_are_aligned_);
  }

  __device__ void store(uint32_t i, uint64_t bits) const {
    if (is_flagged(destination_)) {
      ll::store(ll_line(destination_, i), bits, flag_);
    } else if (is_user(destination_)) {
      std::byte* const to = user_word(destination_, i);
      if (__builtin_expect(words_are_aligned_ && step_.last_word_is_full, true)) {
        *reinterpret_cast<uint64_t*>(to) = bits;
      } else {
        store_word<Word>(to, elements_of(i), words_are_aligned_, bits);
      }
    }
  }

  // The result of the group's words `i`, once all words of the warp have arrived. Every poll combines the words as they
  // are, so that little is left to do, and no code left to fetch, when the last one arrives. Gives up if one does not.
  __device__ uint64_t combined_when_there(uint32_t i) {
    const std::byte* const from = ll_line(source_, i);
    bool came = i >= step_.words || !is_flagged(source_);
    uint64_t bits = bits_;
    uint32_t seen = 0;
    BoundedSpin spin;
    for (;;) {
      if (!came) {
        const ll::Halves halves = ll::load(from);
        came = halves.carry(flag_);
        seen = halves.flag();
        bits = halves.data();
      }
      const uint64_t result = step_.copies ? bits : combined(bits);
      if (__all_sync(kWholeWarp, came)) return result;
      if (!__any_sync(kWholeWarp, spin.is_over(launch_.self))) continue;
      if (!came) channel_.give_up_on_data(source_, seen);
      good_ = false;
      return 0;
    }
  }

  // Combines the words of a group's threads in the order of the sources.
  __device__ uint64_t combined(uint64_t bits) const {
    const int group = 1 << shift_;
    const int sources = step_.sources;
    const int divisor = step_.divisor;
    Accumulator sum[Word::kCount], next[Word::kCount];
    Word(__shfl_sync(kWholeWarp, bits, 0, group)).widen(sum);
#pragma unroll 1
    for (int s = 1; s < sources; ++s) {
      Word(__shfl_sync(kWholeWarp, bits, s, group)).widen(next);
      combine(launch_.op, sum, next);
    }
    divide(sum, divisor);
    Word result;
    result.narrow(sum);
    return result.bits;
  }

  // How many elements word `i` has, which must exist.
  __device__ uint32_t elements_of(uint32_t i) const {
    return i + 1 == step_.words ? step_.last_elements : static_cast<uint32_t>(Word::kCount);
  }

  __device__ std::byte* user_word(uint64_t address, uint32_t i) const {
    return global_pointer(address + user_at_ + i * sizeof(uint64_t));
  }

  __device__ std::byte* ll_line(uint64_t address, uint32_t i) const {
    return global_pointer(without_flag(address) + (ll_at_ + i * static_cast<uint32_t>(kLlLineBytes)));
  }

  const LlLaunch& launch_;
  const Channel& channel_;
  const uint32_t shift_;  // a group has 1 << shift_ threads
  const uint32_t place_;  // in the group
  const bool words_are_aligned_;
  uint64_t user_at_ = 0;  // offset of this slice in user buffers
  uint32_t ll_at_ = 0;    // distance from an LL address to this epoch's memory
  uint32_t flag_ = 0;
  bool good_ = true;
  // The current step:
  LlStep step_;
  uint64_t source_ = 0, destination_ = 0;
  uint64_t bits_ = 0;  // the next word, if its source is in a user buffer
};

}  // namespace plait
