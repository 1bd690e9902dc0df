// Short calls with lines: eight threads for each line, which look after all places of it, one batch after the other.
#pragma once

#include "runtime/cuda/caller_memory.cuh"
#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/lines.cuh"
#include "runtime/cuda/short_kernel.hpp"
#include "runtime/cuda/strand.cuh"

namespace plait {

// kLines lines of a thread and kPlaces of their places are loaded at once.
template <DataType type, int kLines, int kPlaces>
class ShortLines {
 public:
  __device__ ShortLines(const ShortLaunch& launch, const ShortSteps::Slice& slice)
      : launch_(launch),
        slice_(slice),
        given_is_one_(slice.given_is_one),
        taken_words_(slice.taken_words[0]),
        places_(slice.places[0]),
        lines_((slice.words + lines::kWords - 1) / lines::kWords),
        callers_at_(blockIdx.x * launch.slice_bytes) {}

  // Loads what is the caller's for the first places of the first lines; it need not have come when this returns.
  __device__ void load() { load_given(0, first_line()); }

  // After the strand has begun an epoch.
  __device__ void give(const Strand& strand) {
    flag_ = strand.epoch();
    lines_at_ = strand.lines_from_first() + share() * static_cast<uint32_t>(sizeof(lines::Pair));
    for (uint32_t line = first_line(); line < lines_; line += kLines * lines_apart()) {
      for (int first = 0; first < slice_.given; first += kPlaces) {
        if (line != first_line() || first != 0) load_given(first, line);
        store_given(first, line);
      }
    }
  }

  // Lets the next launch begin. False: given up.
  __device__ bool take(const Strand& strand) {
#pragma unroll 1
    for (int taking = 0; taking < slice_.takings; ++taking) {
      // A warp's lines together: its threads vote on all of them.
      for (uint32_t of_warp = threadIdx.x / 32 * kLinesOfWarp; of_warp < lines_; of_warp += kLines * lines_apart()) {
        if (!take(strand, slice_.taken[taking], of_warp + threadIdx.x % 32 / lines::kThreads)) return false;
      }
      places_ += kMostGroup;
      taken_words_ += kMostGroup;
    }
    let_next_launch_begin_after_first_warp();
    return true;
  }

 private:
  using Word = Pack<type, uint64_t>;
  using Accumulator = typename Word::Accumulator;
  template <int kSome>  // lines
  using Pairs = lines::Pair[kSome][kPlaces];
  static constexpr uint32_t kLinesOfWarp = 32 / lines::kThreads;

  struct Sum {
    Accumulator low[Word::kCount], high[Word::kCount];
  };

  // Performs act(l, p) for all of some lines and places of a batch, where the place is one of `places`.
  template <int kSome, class Act>
  __device__ static void for_each(int first, int places, const Act& act) {
#pragma unroll
    for (int l = 0; l < kSome; ++l) {
#pragma unroll
      for (int p = 0; p < kPlaces; ++p) {
        if (first + p < places) act(l, p);
      }
    }
  }

  __device__ void load_given(int first, uint32_t line) {
    for_each<kLines>(first, slice_.given, [&](int l, int p) {
      given_[l][p] = p > 0 && given_is_one_ ? given_[l][0]
                                            : load_callers(address(first + p, ShortPlace::kGiven),
                                                           line + l * lines_apart(), slice_.given_words[first + p]);
    });
  }

  __device__ void store_given(int first, uint32_t line) const {
    for_each<kLines>(first, slice_.given, [&](int l, int p) {
      store(address(first + p, ShortPlace::kGivenTo), line + l * lines_apart(), slice_.given_words[first + p],
            given_[l][p]);
    });
  }

  // This thread's lines of a round, the first of which is `line`.
  __device__ bool take(const Strand& strand, const ShortSteps::Taking& taken, uint32_t line) const {
    if (taken.combined == 0 || taken.places <= kPlaces) return take_some<kLines>(strand, taken, line);
    // Sums of several lines would not fit into registers while more places are waited for.
#pragma unroll 1
    for (int l = 0; l < kLines; ++l) {
      if (!take_some<1>(strand, taken, line + l * lines_apart())) return false;
    }
    return true;
  }

  // Several lines to be combined have places for one batch.
  template <int kSome>
  __device__ bool take_some(const Strand& strand, const ShortSteps::Taking& taken, uint32_t line) const {
    Pairs<kSome> pairs;
    Sum sum;  // of one line
#pragma unroll 1
    for (int first = 0; first < taken.places; first += kPlaces) {
      if (!await<kSome>(strand, taken, first, line, pairs)) return false;
      if (taken.combined == 0) {
        for_each<kSome>(first, taken.places, [&](int l, int p) {
          store(address(first + p, ShortPlace::kTakenTo), line + l * lines_apart(), taken_words_[first + p],
                pairs[l][p]);
        });
      } else if constexpr (kSome == 1) {
        for_each<1>(first, taken.combined, [&](int, int p) { add(pairs[0][p], p == 0 && first == 0, sum); });
      }
    }
    if (taken.combined == 0) return true;
    if constexpr (kSome == 1) {
      pairs[0][0] = narrow(sum);
    } else {
#pragma unroll
      for (int l = 0; l < kSome; ++l) {
        for_each<1>(0, taken.combined, [&](int, int p) { add(pairs[l][p], p == 0, sum); });
        pairs[l][0] = narrow(sum);
      }
    }
#pragma unroll 1
    for (int place = 0; place < taken.results; ++place) {
#pragma unroll
      for (int l = 0; l < kSome; ++l) {
        store(address(place, ShortPlace::kTakenTo), line + l * lines_apart(), taken_words_[place], pairs[l][0]);
      }
    }
    return true;
  }

  // Gets the pairs of a batch; false: given up.
  template <int kSome>
  __device__ bool await(const Strand& strand, const ShortSteps::Taking& taken, int first, uint32_t line,
                        Pairs<kSome>& pairs) const {
    unsigned missing = 0;
    for_each<kSome>(first, taken.places, [&](int l, int p) {
      const uint64_t from = address(first + p, ShortPlace::kTaken);
      const uint32_t at = line + l * lines_apart();
      if (!is_flagged(from)) {
        pairs[l][p] = load_callers(from, at, taken_words_[first + p]);
      } else if (exists(at, taken_words_[first + p])) {
        missing |= bit(l, p);
      }
    });
    Patience patience;
    while (__any_sync(kWholeWarp, missing != 0)) {
      for_each<kSome>(first, taken.places, [&](int l, int p) {
        if ((missing & bit(l, p)) == 0) return;
        pairs[l][p] = lines::load(stored(address(first + p, ShortPlace::kTaken), line + l * lines_apart()));
      });
      for_each<kSome>(first, taken.places, [&](int l, int p) {
        if (lines::has_come(pairs[l][p], flag_)) missing &= ~bit(l, p);
      });
      if (!__any_sync(kWholeWarp, missing != 0 && patience.is_over(launch_.self))) continue;
      if (missing != 0) {
        // The first of them is looked at again: to choose among pairs takes registers that there are none of.
        const int first_missing = __ffs(static_cast<int>(missing)) - 1;
        const uint64_t from = address(first + first_missing % kPlaces, ShortPlace::kTaken);
        const lines::Pair seen = lines::load(stored(from, line + first_missing / kPlaces * lines_apart()));
        if (has_flag()) strand.give_up_on_data(from, seen.high);
      }
      return false;
    }
    return true;
  }

  __device__ static unsigned bit(int line, int place) { return 1u << (line * kPlaces + place); }

  __device__ static void add(const lines::Pair& pair, bool is_first, Sum& sum) {
    Sum next;
    Word(pair.low).widen(next.low);
    Word(pair.high).widen(next.high);
    if (is_first) {
      sum = next;
    } else {
      plait::add(sum.low, next.low);
      plait::add(sum.high, next.high);
    }
  }

  __device__ static lines::Pair narrow(const Sum& sum) {
    Word low, high;
    low.narrow(sum.low);
    high.narrow(sum.high);
    return {low.bits, high.bits};
  }

  __device__ static uint32_t share() { return threadIdx.x % lines::kThreads; }
  __device__ static bool has_flag() { return share() == lines::kThreads - 1; }
  __device__ static uint32_t first_line() { return threadIdx.x / lines::kThreads; }
  // From one line of a thread to its next.
  __device__ static uint32_t lines_apart() { return blockDim.x / lines::kThreads; }

  // The first of this thread's words of a line.
  __device__ static uint32_t word(uint32_t line) { return line * lines::kWords + 2 * share(); }
  // Of so many words:
  __device__ static bool exists(uint32_t line, uint32_t words) { return line * lines::kWords < words; }
  __device__ static bool has_low(uint32_t line, uint32_t words) { return word(line) < words; }
  __device__ static bool has_high(uint32_t line, uint32_t words) { return word(line) + 1 < words && !has_flag(); }

  __device__ void store(uint64_t to, uint32_t line, uint32_t words, const lines::Pair& pair) const {
    if (!is_flagged(to)) {
      store_callers(to, line, words, pair);
    } else if (exists(line, words)) {
      lines::store(stored(to, line), pair, has_flag(), flag_);
    }
  }

  __device__ lines::Pair load_callers(uint64_t address, uint32_t line, uint32_t words) const {
    const uint64_t* const from = callers_word(address, line);
    lines::Pair pair;
    if (has_low(line, words)) pair.low = from[0];
    if (has_high(line, words)) pair.high = from[1];
    return pair;
  }

  __device__ void store_callers(uint64_t address, uint32_t line, uint32_t words, const lines::Pair& pair) const {
    uint64_t* const to = callers_word(address, line);
    if (has_low(line, words)) to[0] = pair.low;
    if (has_high(line, words)) to[1] = pair.high;
  }

  __device__ uint64_t address(int place, ShortPlace::Field field) const { return places_[place].addresses[field]; }

  __device__ uint64_t* callers_word(uint64_t address, uint32_t line) const {
    return reinterpret_cast<uint64_t*>(global_pointer(address + callers_at_ + word(line) * sizeof(uint64_t)));
  }

  __device__ std::byte* stored(uint64_t address, uint32_t line) const {
    return global_pointer(without_flag(address) + (lines_at_ + line * static_cast<uint32_t>(kLineBytes)));
  }

  const ShortLaunch& launch_;
  const ShortSteps::Slice& slice_;
  const bool given_is_one_;
  const uint32_t* taken_words_;  // of the taking at hand, as
  const ShortPlace* places_;
  const uint32_t lines_;       // of the place that has most
  const uint64_t callers_at_;  // where the slice starts in the caller's memory
  uint32_t lines_at_ = 0;      // where this thread's part of this epoch's first line is, from the addresses on
  uint64_t flag_ = 0;
  Pairs<kLines> given_;  // of a batch
};

}  // namespace plait
