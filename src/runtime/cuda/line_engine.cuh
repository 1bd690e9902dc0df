// Performs steps with one flag for every 128 bytes (lines.cuh): eight threads store a line at once, and load it at once
// until the flag is of this epoch.
#pragma once

#include "runtime/cuda/caller_memory.cuh"
#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/lines.cuh"
#include "runtime/cuda/strand.cuh"

namespace plait {

template <DataType type>
class LineEngine {
 public:
  using Word = Pack<type, uint64_t>;
  using Accumulator = typename Word::Accumulator;

  __device__ LineEngine(const FlaggedLaunch& launch, const Strand& strand)
      : launch_(launch),
        strand_(strand),
        op_(launch.op),
        words_are_aligned_(launch.words_are_aligned),
        place_(lines::place()) {}

  __device__ void begin_slice(uint32_t slice) { callers_at_ = slice * launch_.slice_bytes; }

  // After the strand has.
  __device__ void begin_epoch() {
    lines_at_ = strand_.lines_from_first() + place_ * 16;
    flag_ = strand_.epoch();
  }

  __device__ void begin_step(uint32_t step) { step_ = step; }

  // All threads of a warp stay together: were those of each line to vote by themselves, the warp would run through that
  // once for each line.
  __device__ void perform() {
    const FlaggedStep& step = launch_.steps[step_];
    const FlaggedPlace* const places = launch_.places + (step_ << launch_.group_shift);
    const uint32_t lines = (step.words + kWords - 1) / kWords;
    const uint32_t ahead = threadIdx.x % 32 / kThreads;  // of the warp's first line
    for (uint32_t first = threadIdx.x / 32 * (32 / kThreads); first < lines && good_; first += blockDim.x / kThreads) {
      perform_line(step, places, first + ahead, first + ahead < lines);
    }
  }

  // Not once it has given up.
  __device__ bool is_good() const { return good_; }

 private:
  static constexpr int kThreads = lines::kThreads;
  static constexpr int kWords = lines::kWords;
  static constexpr int kAtOnce = 4;  // sources

  using Pair = lines::Pair;

  struct Share {
    uint32_t word, low_count, high_count;
  };

  // `exists`: not behind the last line.
  __device__ void perform_line(const FlaggedStep& step, const FlaggedPlace* places, uint32_t line, bool exists) {
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

  // Combines `batch` pairs with `low` and `high`, which begin with the first of them.
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
      std::byte* const word = callers_word(address, share);
      if (share.low_count > 0) store_word<Word>(word, share.low_count, words_are_aligned_, pair.low);
      if (share.high_count > 0)
        store_word<Word>(word + sizeof(uint64_t), share.high_count, words_are_aligned_, pair.high);
    } else {
      lines::store(stored(address, line), pair, lines::has_flag(), flag_);
    }
  }

  // This thread's words of a line, and how many elements they hold.
  __device__ Share share_of(const FlaggedStep& step, uint32_t line) const {
    const uint32_t word = line * kWords + 2 * place_;
    return {word, elements_of(step, word), lines::has_flag() ? 0 : elements_of(step, word + 1)};
  }

  // How many elements of the step word `word` holds.
  __device__ static uint32_t elements_of(const FlaggedStep& step, uint32_t word) {
    if (word + 1 == step.words) return step.last_elements;
    return word < step.words ? static_cast<uint32_t>(Word::kCount) : 0;
  }

  // This thread's pair of up to kAtOnce sources, all under way at once. For all threads of a warp, in up to four lines.
  // False: given up.
  __device__ bool load_batch(const FlaggedPlace* from, int batch, uint32_t line, const Share& share, bool exists,
                             Pair (&pairs)[kAtOnce]) {
    unsigned missing = 0;
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      if (b >= batch) break;
      if (is_flagged(from[b].source)) {
        if (exists) missing |= 1u << b;
        continue;
      }
      const std::byte* const word = callers_word(from[b].source, share);
      if (share.low_count > 0) pairs[b].low = load_word<Word>(word, share.low_count, words_are_aligned_);
      if (share.high_count > 0)
        pairs[b].high = load_word<Word>(word + sizeof(uint64_t), share.high_count, words_are_aligned_);
    }
    Patience patience;
    while (__any_sync(kWholeWarp, missing != 0)) {
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if ((missing >> b & 1) == 0) continue;
        pairs[b] = lines::load(stored(from[b].source, line));
      }
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if (b >= batch) break;
        if (lines::has_come(pairs[b], flag_)) missing &= ~(1u << b);
      }
      if (!__any_sync(kWholeWarp, missing != 0 && patience.is_over(launch_.self))) continue;
      if (lines::has_flag() && missing != 0) {
        uint64_t seen = 0;  // of the first of them
#pragma unroll
        for (int b = kAtOnce - 1; b >= 0; --b) {
          if ((missing >> b & 1) != 0) seen = pairs[b].high;
        }
        strand_.give_up_on_data(from[__ffs(static_cast<int>(missing)) - 1].source, seen);
      }
      good_ = false;
      return false;
    }
    return true;
  }

  // Where this thread's first word of a line is.
  __device__ std::byte* callers_word(uint64_t address, const Share& share) const {
    return global_pointer(address + callers_at_ + share.word * sizeof(uint64_t));
  }

  __device__ std::byte* stored(uint64_t address, uint32_t line) const {
    return global_pointer(without_flag(address) + lines_at_ + line * kLineBytes);
  }

  const FlaggedLaunch& launch_;
  const Strand& strand_;
  const ReduceOp op_;
  const bool words_are_aligned_;
  uint32_t step_ = 0;
  const uint32_t place_;   // in the line
  size_t callers_at_ = 0;  // where this slice starts in the caller's memory
  size_t lines_at_ = 0;    // where this thread's part of this epoch's first line is, from the addresses on
  uint64_t flag_ = 0;
  bool good_ = true;
};

}  // namespace plait
