// Performs steps with the LL128 protocol (ll128.cuh): eight threads store a line at once, and load it at once until its
// flag is that of this epoch.
#pragma once

#include "runtime/cuda/device/elements.cuh"
#include "runtime/cuda/device/user_buffer.cuh"
#include "runtime/cuda/kernels/channel.cuh"
#include "runtime/cuda/kernels/ll128.cuh"

namespace plait {

template <DataType type>
class Ll128Primitives {
 public:
  using Word = Pack<type, uint64_t>;
  using Accumulator = typename Word::Accumulator;

  __device__ Ll128Primitives(const LlLaunch& launch, const Channel& channel)
      : launch_(launch),
        channel_(channel),
        op_(launch.op),
        words_are_aligned_(launch.words_are_aligned),
        place_(ll128::place()) {}

  __device__ void begin_slice(uint32_t slice) { user_at_ = slice * launch_.slice_bytes; }

  // Call it after Channel::begin().
  __device__ void begin_epoch() {
    ll128_at_ = channel_.ll128_from_first() + place_ * 16;
    flag_ = channel_.epoch();
  }

  __device__ void begin_step(uint32_t step) { step_ = step; }

  // All threads of a warp stay together: if the threads of each line voted separately, the warp would execute the vote
  // once for each line.
  __device__ void perform() {
    const LlStep& step = launch_.steps[step_];
    const LlPlace* const places = launch_.places + (step_ << launch_.group_shift);
    const uint32_t lines = (step.words + kWords - 1) / kWords;
    const uint32_t ahead = threadIdx.x % 32 / kThreads;  // this thread's line, counted from the warp's first
    for (uint32_t first = threadIdx.x / 32 * (32 / kThreads); first < lines && good_; first += blockDim.x / kThreads) {
      perform_line(step, places, first + ahead, first + ahead < lines);
    }
  }

  // False: given up.
  __device__ bool is_good() const { return good_; }

 private:
  static constexpr int kThreads = ll128::kThreads;
  static constexpr int kWords = ll128::kWords;
  static constexpr int kAtOnce = 4;  // sources that are loaded at once

  using Pair = ll128::WordPair;

  struct Share {
    uint32_t word, low_count, high_count;
  };

  // `exists`: the line is not behind the last one.
  __device__ void perform_line(const LlStep& step, const LlPlace* places, uint32_t line, bool exists) {
    const Share share = share_of(step, line);
    Accumulator low[Word::kCount], high[Word::kCount];
    Pair pairs[kAtOnce];
    for (int s = 0; s < step.sources; s += kAtOnce) {
      const int batch = min(kAtOnce, step.sources - s);
      if (!load_batch(places + s, batch, line, share, exists, pairs)) return;
      if (step.copies) {
#pragma unroll
        for (int b = 0; b < kAtOnce; ++b) {
          if (b < batch && exists) store(places[s + b].destination, line, share, pairs[b]);
        }
      } else {
        add_up(s == 0, batch, pairs, low, high);
      }
    }
    if (step.copies || !exists) return;
    Pair result = pairs[0];
    if (step.sources > 1 || step.divisor != 0) {
      divide(low, step.divisor);
      divide(high, step.divisor);
      Word narrow;
      narrow.narrow(low);
      result.low = narrow.bits;
      narrow.narrow(high);
      result.high = narrow.bits;
    }
    for (int d = 0; d < step.destinations; ++d) store(places[d].destination, line, share, result);
  }

  // Combines `batch` pairs with `low` and `high`. `begins`: the first pair initialises them.
  __device__ void add_up(bool begins, int batch, const Pair (&pairs)[kAtOnce], Accumulator (&low)[Word::kCount],
                         Accumulator (&high)[Word::kCount]) {
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      if (b >= batch) break;
      if (b == 0 && begins) {
        Word(pairs[b].low).widen(low);
        Word(pairs[b].high).widen(high);
      } else {
        Accumulator next[Word::kCount];
        Word(pairs[b].low).widen(next);
        combine(op_, low, next);
        Word(pairs[b].high).widen(next);
        combine(op_, high, next);
      }
    }
  }

  __device__ void store(uint64_t address, uint32_t line, const Share& share, const Pair& pair) const {
    if (!is_flagged(address)) {
      std::byte* const word = user_word(address, share);
      if (share.low_count > 0) store_word<Word>(word, share.low_count, words_are_aligned_, pair.low);
      if (share.high_count > 0)
        store_word<Word>(word + sizeof(uint64_t), share.high_count, words_are_aligned_, pair.high);
    } else {
      ll128::store(stored(address, line), pair, ll128::has_flag(), flag_);
    }
  }

  // This thread's words of a line, and how many elements they hold.
  __device__ Share share_of(const LlStep& step, uint32_t line) const {
    const uint32_t word = line * kWords + 2 * place_;
    return {word, elements_of(step, word), ll128::has_flag() ? 0 : elements_of(step, word + 1)};
  }

  // How many elements of the step word `word` holds.
  __device__ static uint32_t elements_of(const LlStep& step, uint32_t word) {
    if (word + 1 == step.words) return step.last_elements;
    return word < step.words ? static_cast<uint32_t>(Word::kCount) : 0;
  }

  // Loads this thread's pair of up to kAtOnce sources, all at once. For all threads of a warp, which hold up to four
  // lines. False: given up.
  __device__ bool load_batch(const LlPlace* from, int batch, uint32_t line, const Share& share, bool exists,
                             Pair (&pairs)[kAtOnce]) {
    unsigned missing = 0;
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      if (b >= batch) break;
      if (is_flagged(from[b].source)) {
        if (exists) missing |= 1u << b;
        continue;
      }
      const std::byte* const word = user_word(from[b].source, share);
      if (share.low_count > 0) pairs[b].low = load_word<Word>(word, share.low_count, words_are_aligned_);
      if (share.high_count > 0)
        pairs[b].high = load_word<Word>(word + sizeof(uint64_t), share.high_count, words_are_aligned_);
    }
    BoundedSpin spin;
    while (__any_sync(kWholeWarp, missing != 0)) {
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if ((missing >> b & 1) == 0) continue;
        pairs[b] = ll128::load(stored(from[b].source, line));
      }
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if (b >= batch) break;
        if (ll128::has_come(pairs[b], flag_)) missing &= ~(1u << b);
      }
      if (!__any_sync(kWholeWarp, missing != 0 && spin.is_over(launch_.self))) continue;
      if (ll128::has_flag() && missing != 0) {
        uint64_t seen = 0;  // the flag of the first missing source
#pragma unroll
        for (int b = kAtOnce - 1; b >= 0; --b) {
          if ((missing >> b & 1) != 0) seen = pairs[b].high;
        }
        channel_.give_up_on_data(from[__ffs(static_cast<int>(missing)) - 1].source, seen);
      }
      good_ = false;
      return false;
    }
    return true;
  }

  // The address of this thread's first word of a line.
  __device__ std::byte* user_word(uint64_t address, const Share& share) const {
    return global_pointer(address + user_at_ + share.word * sizeof(uint64_t));
  }

  __device__ std::byte* stored(uint64_t address, uint32_t line) const {
    return global_pointer(without_flag(address) + ll128_at_ + line * kLl128LineBytes);
  }

  const LlLaunch& launch_;
  const Channel& channel_;
  const ReduceOp op_;
  const bool words_are_aligned_;
  uint32_t step_ = 0;
  const uint32_t place_;  // in the line
  size_t user_at_ = 0;    // offset of this slice in user buffers
  size_t ll128_at_ = 0;   // distance from an LL address to this thread's part of this epoch's first line
  uint64_t flag_ = 0;
  bool good_ = true;
};

}  // namespace plait
