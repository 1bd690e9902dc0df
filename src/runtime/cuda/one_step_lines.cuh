// One step with lines: eight threads for each line, which look after all places of it, one batch after the other.
#pragma once

#include "runtime/cuda/caller_memory.cuh"
#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/lines.cuh"
#include "runtime/cuda/one_step_kernel.hpp"
#include "runtime/cuda/strand.cuh"

namespace plait {

template <DataType type>
class OneStepLines {
 public:
  __device__ OneStepLines(const OneStepLaunch& launch, const OneStepProgram::Slice& slice)
      : launch_(launch),
        places_(slice.places),
        words_(slice.words),
        lines_((slice.words + lines::kWords - 1) / lines::kWords),
        callers_at_(blockIdx.x * launch.slice_bytes) {}

  // Loads what is the caller's for the first batch of the first line; it need not have come when this returns.
  __device__ void load() { load_given(0, first_line()); }

  // After the strand has begun an epoch.
  __device__ void give(const Strand& strand) {
    flag_ = strand.epoch();
    lines_at_ =
        static_cast<uint32_t>(BlockLayout::lines_at(strand.number(), strand.parity()) - BlockLayout::lines_at(0, 0)) +
        share() * static_cast<uint32_t>(sizeof(lines::Pair));
    for (uint32_t line = first_line(); line < lines_; line += lines_at_once()) {
      for (int first = 0; first < launch_.given; first += kAtOnce) {
        if (line != first_line() || first != 0) load_given(first, line);
        store_given(first, line);
      }
    }
  }

  // Nothing is written to the caller's memory before all threads of a warp have read theirs. False: given up.
  __device__ bool take(const Strand& strand) const {
    // A warp's lines together: its threads vote on all of them.
    for (uint32_t of_warp = threadIdx.x / 32 * kLinesOfWarp; of_warp < lines_; of_warp += lines_at_once()) {
      if (!take(strand, of_warp + threadIdx.x % 32 / lines::kThreads)) return false;
    }
    return true;
  }

 private:
  using Word = Pack<type, uint64_t>;
  using Accumulator = typename Word::Accumulator;
  static constexpr int kAtOnce = 4;  // places
  static constexpr uint32_t kLinesOfWarp = 32 / lines::kThreads;

  __device__ void load_given(int first, uint32_t line) {
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
      if (first + p >= launch_.given) continue;
      given_[p] = p > 0 && launch_.given_is_one
                      ? given_[0]
                      : load_callers(places_[first + p].addresses[OneStepPlace::kGiven], line);
    }
  }

  __device__ void store_given(int first, uint32_t line) const {
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
      if (first + p >= launch_.given) continue;
      const uint64_t to = places_[first + p].addresses[OneStepPlace::kGivenTo];
      if (static_cast<int64_t>(to) < 0) {
        lines::store(stored(to, line), given_[p], has_flag(), flag_);
      } else {
        store_callers(to, line, given_[p]);
      }
    }
  }

  __device__ bool take(const Strand& strand, uint32_t line) const {
    Accumulator low[Word::kCount], high[Word::kCount];
    for (int first = 0; first < launch_.taken; first += kAtOnce) {
      lines::Pair pairs[kAtOnce];
      if (!await(strand, first, line, pairs)) return false;
      if (launch_.combined == 0) {
        store_taken(first, line, pairs);
      } else {
        add_up(first, pairs, low, high);
      }
    }
    if (launch_.combined == 0) return true;
    Word sum_low, sum_high;
    sum_low.narrow(low);
    sum_high.narrow(high);
    store_callers(places_[0].addresses[OneStepPlace::kTakenTo], line, {sum_low.bits, sum_high.bits});
    return true;
  }

  // Gets the pairs of a batch of places; false: given up.
  __device__ bool await(const Strand& strand, int first, uint32_t line, lines::Pair (&pairs)[kAtOnce]) const {
    unsigned missing = 0;
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
      if (first + p >= launch_.taken) continue;
      const uint64_t from = places_[first + p].addresses[OneStepPlace::kTaken];
      if (static_cast<int64_t>(from) < 0) {
        if (line < lines_) missing |= 1u << p;
      } else {
        pairs[p] = load_callers(from, line);
      }
    }
    Patience patience;
    while (__any_sync(kWarp, missing != 0)) {
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if ((missing >> p & 1) == 0) continue;
        pairs[p] = lines::load(stored(places_[first + p].addresses[OneStepPlace::kTaken], line));
      }
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (first + p >= launch_.taken) continue;
        if (lines::has_come(pairs[p], flag_)) missing &= ~(1u << p);
      }
      if (!__any_sync(kWarp, missing != 0 && patience.is_over(launch_.self))) continue;
      if (missing != 0 && has_flag()) {
        strand.give_up(StrandFailure::kTimedOut, -1, -1, 0, (missing & 1) != 0 ? pairs[0].high : 0);
      }
      return false;
    }
    return true;
  }

  __device__ void store_taken(int first, uint32_t line, const lines::Pair (&pairs)[kAtOnce]) const {
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
      if (first + p >= launch_.taken) continue;
      store_callers(places_[first + p].addresses[OneStepPlace::kTakenTo], line, pairs[p]);
    }
  }

  // Combines the pairs of a batch with `low` and `high`, which begin with the first place's.
  __device__ void add_up(int first, const lines::Pair (&pairs)[kAtOnce], Accumulator (&low)[Word::kCount],
                         Accumulator (&high)[Word::kCount]) const {
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
      if (first + p >= launch_.combined) continue;
      if (p == 0 && first == 0) {
        Word(pairs[p].low).widen(low);
        Word(pairs[p].high).widen(high);
      } else {
        add(low, pairs[p].low);
        add(high, pairs[p].high);
      }
    }
  }

  __device__ static void add(Accumulator (&sum)[Word::kCount], uint64_t bits) {
    Accumulator next[Word::kCount];
    Word(bits).widen(next);
#pragma unroll
    for (int e = 0; e < Word::kCount; ++e) sum[e] = combine_sum(sum[e], next[e]);
  }

  __device__ static uint32_t share() { return threadIdx.x % lines::kThreads; }
  __device__ static bool has_flag() { return share() == lines::kThreads - 1; }
  __device__ static uint32_t first_line() { return threadIdx.x / lines::kThreads; }
  __device__ static uint32_t lines_at_once() { return blockDim.x / lines::kThreads; }

  // The first of this thread's words of a line.
  __device__ static uint32_t word(uint32_t line) { return line * lines::kWords + 2 * share(); }
  __device__ bool has_low(uint32_t line) const { return word(line) < words_; }
  __device__ bool has_high(uint32_t line) const { return word(line) + 1 < words_ && !has_flag(); }

  __device__ lines::Pair load_callers(uint64_t address, uint32_t line) const {
    const uint64_t* const from = callers_word(address, line);
    lines::Pair pair;
    if (has_low(line)) pair.low = from[0];
    if (has_high(line)) pair.high = from[1];
    return pair;
  }

  __device__ void store_callers(uint64_t address, uint32_t line, const lines::Pair& pair) const {
    uint64_t* const to = callers_word(address, line);
    if (has_low(line)) to[0] = pair.low;
    if (has_high(line)) to[1] = pair.high;
  }

  __device__ uint64_t* callers_word(uint64_t address, uint32_t line) const {
    return reinterpret_cast<uint64_t*>(global_pointer(address + callers_at_ + word(line) * sizeof(uint64_t)));
  }

  __device__ std::byte* stored(uint64_t address, uint32_t line) const {
    return global_pointer((address & ~kFlaggedAddress) + (lines_at_ + line * static_cast<uint32_t>(kLineBytes)));
  }

  const OneStepLaunch& launch_;
  const OneStepPlace* const places_;
  const uint32_t words_, lines_;  // of the slice
  const uint64_t callers_at_;     // where the slice starts in the caller's memory
  uint32_t lines_at_ = 0;         // where this thread's part of this epoch's first line is, from the addresses on
  uint64_t flag_ = 0;
  lines::Pair given_[kAtOnce];  // of a batch of places
};

}  // namespace plait
