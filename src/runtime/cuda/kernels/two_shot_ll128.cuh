// Two-shot calls with lines: eight threads for each line, which look after all places of it, one batch after the other.
#pragma once

#include <type_traits>

#include "runtime/cuda/device/elements.cuh"
#include "runtime/cuda/device/user_buffer.cuh"
#include "runtime/cuda/kernels/channel.cuh"
#include "runtime/cuda/kernels/ll128.cuh"
#include "runtime/cuda/kernels/two_shot_kernel.hpp"
#include "runtime/cuda/kernels/user_share.cuh"

namespace plait {

// kLines lines of a thread and kPlaces of their places are loaded at once. `is_whole`: as TwoShotProgram says.
template <DataType type, int kLines, int kPlaces, bool is_whole>
class TwoShotLl128 {
 public:
  __device__ TwoShotLl128(const TwoShotLaunch& launch, const TwoShotSteps::Slice& slice)
      : launch_(launch),
        slice_(slice),
        given_is_one_(slice.given_is_one),
        taken_of_(slice.taken_of[0]),
        places_(slice.places[0]),
        lines_((slice.most.words + ll128::kWords - 1) / ll128::kWords),
        user_at_(blockIdx.x * launch.slice_bytes) {}

  // Loads what is the caller's for the first places of the first lines; it need not have come when this returns.
  __device__ void load() { load_given(0, first_of_warp() + in_warp()); }

  // After the channel has begun an epoch.
  __device__ void give(const Channel& channel) {
    flag_ = channel.epoch();
    ll128_at_ = channel.lines_from_first() + ll128::place() * static_cast<uint32_t>(sizeof(ll128::Pair));
    for_each_round([&](uint32_t of_warp) {
      for (int first = 0; first < slice_.given; first += kPlaces) {
        if (of_warp != first_of_warp() || first != 0) load_given(first, of_warp + in_warp());
        store_given(first, of_warp + in_warp());
      }
      return true;
    });
  }

  // Lets the next launch begin. False: given up.
  __device__ bool take(const Channel& channel) {
#pragma unroll 1
    for (int taking = 0; taking < slice_.takings; ++taking) {
      const bool is_good =
          for_each_round([&](uint32_t of_warp) { return take(channel, slice_.taken[taking], of_warp + in_warp()); });
      if (!is_good) return false;
      places_ += kMostGroup;
      taken_of_ += kMostGroup;
    }
    let_next_launch_begin_after_first_warp();
    return true;
  }

 private:
  using Word = Pack<type, uint64_t>;
  using Accumulator = typename Word::Accumulator;
  using Extent = TwoShotSteps::Extent;
  template <int kSome>  // lines
  using Pairs = ll128::Pair[kSome][kPlaces];
  static constexpr uint32_t kLinesOfWarp = kWarpThreads / ll128::kThreads;

  struct Sum {
    Accumulator low[Word::kCount], high[Word::kCount];
  };

  // Performs act(line) for the first lines of this warp's rounds, which all its threads perform together: they vote on
  // all of them, and exchange what lies in one word. False: for one of them it was.
  template <class Act>
  __device__ bool for_each_round(const Act& act) const {
    for (uint32_t line = first_of_warp(); line < lines_; line += of_round()) {
      if (!act(line)) return false;
    }
    return true;
  }

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

  template <class Act>
  __device__ static void for_each_place(int first, int places, const Act& act) {
#pragma unroll
    for (int p = 0; p < kPlaces; ++p) {
      if (first + p < places) act(p);
    }
  }

  __device__ void load_given(int first, uint32_t line) {
    for_each<kLines>(first, slice_.given, [&](int l, int p) {
      if (p == 0 || !given_is_one_) given_[l][p] = given(first + p, line + l * lines_apart()).load();
    });
    if constexpr (!is_whole) {
      for_each<kLines>(first, slice_.given, [&](int l, int p) {
        if (p == 0 || !given_is_one_) given(first + p, line + l * lines_apart()).load_ends(given_[l][p]);
      });
    }
  }

  __device__ void store_given(int first, uint32_t line) {
    if constexpr (!is_whole) {
      for_each<kLines>(first, slice_.given, [&](int l, int p) {
        if (p == 0 || !given_is_one_) given(first + p, line + l * lines_apart()).complete(given_[l][p]);
      });
    }
    for_each_place(first, slice_.given, [&](int p) {
#pragma unroll
      for (int l = 0; l < kLines; ++l) given_[l][p] = p > 0 && given_is_one_ ? given_[l][0] : given_[l][p];
      store<kLines>(address(first + p, TwoShotPlace::kGivenTo), line, slice_.given_of[first + p], given_, p);
    });
  }

  // This thread's lines of a round, the first of which is `line`.
  __device__ bool take(const Channel& channel, const TwoShotSteps::Taking& taken, uint32_t line) const {
    if (taken.combined == 0 || taken.places <= kPlaces) return take_some<kLines>(channel, taken, line);
    // Sums of several lines would not fit into registers while more places are waited for.
#pragma unroll 1
    for (int l = 0; l < kLines; ++l) {
      if (!take_some<1>(channel, taken, line + l * lines_apart())) return false;
    }
    return true;
  }

  // Several lines to be combined have places for one batch.
  template <int kSome>
  __device__ bool take_some(const Channel& channel, const TwoShotSteps::Taking& taken, uint32_t line) const {
    Pairs<kSome> pairs;
    Sum sum;  // of one line
#pragma unroll 1
    for (int first = 0; first < taken.places; first += kPlaces) {
      if (!await<kSome>(channel, taken, first, line, pairs)) return false;
      if (taken.combined == 0) {
        for_each_place(first, taken.places, [&](int p) {
          store<kSome>(address(first + p, TwoShotPlace::kTakenTo), line, taken_of_[first + p], pairs, p);
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
      store<kSome>(address(place, TwoShotPlace::kTakenTo), line, taken_of_[place], pairs, 0);
    }
    return true;
  }

  // Gets the pairs of a batch; false: given up.
  template <int kSome>
  __device__ bool await(const Channel& channel, const TwoShotSteps::Taking& taken, int first, uint32_t line,
                        Pairs<kSome>& pairs) const {
    unsigned missing = 0;
    for_each<kSome>(first, taken.places, [&](int l, int p) {
      const uint64_t from = address(first + p, TwoShotPlace::kTaken);
      const uint32_t at = line + l * lines_apart();
      if (!is_flagged(from)) {
        pairs[l][p] = callers(from, at, taken_of_[first + p]).load();
      } else if (exists(at, taken_of_[first + p])) {
        missing |= bit(l, p);
      }
    });
    const auto for_each_user = [&](const auto& act) {
      for_each<kSome>(first, taken.places, [&](int l, int p) {
        const uint64_t from = address(first + p, TwoShotPlace::kTaken);
        if (!is_flagged(from)) act(callers(from, line + l * lines_apart(), taken_of_[first + p]), pairs[l][p]);
      });
    };
    if constexpr (!is_whole) for_each_user([](const auto& share, ll128::Pair& pair) { share.load_ends(pair); });
    BoundedSpin spin;
    while (__any_sync(kWholeWarp, missing != 0)) {
      for_each<kSome>(first, taken.places, [&](int l, int p) {
        if ((missing & bit(l, p)) == 0) return;
        pairs[l][p] = ll128::load(stored(address(first + p, TwoShotPlace::kTaken), line + l * lines_apart()));
      });
      for_each<kSome>(first, taken.places, [&](int l, int p) {
        if (ll128::has_come(pairs[l][p], flag_)) missing &= ~bit(l, p);
      });
      if (!__any_sync(kWholeWarp, missing != 0 && spin.is_over(launch_.self))) continue;
      if (missing != 0) {
        // The first of them is looked at again: to choose among pairs takes registers that there are none of.
        const int first_missing = __ffs(static_cast<int>(missing)) - 1;
        const uint64_t from = address(first + first_missing % kPlaces, TwoShotPlace::kTaken);
        const ll128::Pair seen = ll128::load(stored(from, line + first_missing / kPlaces * lines_apart()));
        if (ll128::has_flag()) channel.give_up_on_data(from, seen.high);
      }
      return false;
    }
    if constexpr (!is_whole) for_each_user([](const auto& share, ll128::Pair& pair) { share.complete(pair); });
    return true;
  }

  __device__ static unsigned bit(int line, int place) { return 1u << (line * kPlaces + place); }

  __device__ static void add(const ll128::Pair& pair, bool is_first, Sum& sum) {
    Sum next;
    Word(pair.low).widen(next.low);
    Word(pair.high).widen(next.high);
    if (is_first) {
      sum = next;
    } else {
      combine(Add{}, sum.low, next.low);
      combine(Add{}, sum.high, next.high);
    }
  }

  __device__ static ll128::Pair narrow(const Sum& sum) {
    Word low, high;
    low.narrow(sum.low);
    high.narrow(sum.high);
    return {low.bits, high.bits};
  }

  // A thread's lines are as far apart as the CTA has some at once, so that all warps have a part in few lines; where
  // words are not whole, and registers short, as its warp has, which is a constant.
  static constexpr bool kAreOfCta = is_whole;
  __device__ static uint32_t lines_apart() { return kAreOfCta ? blockDim.x / ll128::kThreads : kLinesOfWarp; }
  // The first line of this thread's warp, how many of the warp's lines are before this thread's, and how many of a
  // round.
  __device__ static uint32_t first_of_warp() {
    return threadIdx.x / kWarpThreads * kLinesOfWarp * (kAreOfCta ? 1 : kLines);
  }
  __device__ static uint32_t in_warp() { return threadIdx.x % kWarpThreads / ll128::kThreads; }
  __device__ static uint32_t of_round() { return kLines * (blockDim.x / ll128::kThreads); }

  // Whether a place has such a line.
  __device__ static bool exists(uint32_t line, const Extent& extent) { return line * ll128::kWords < extent.words; }

  // This thread's share of a line in the caller's memory.
  using Share = std::conditional_t<is_whole, WholeShare, ShiftedShare<Word>>;
  __device__ Share callers(uint64_t address, uint32_t line, const Extent& extent) const {
    return {global_pointer(address + user_at_), line * ll128::kWords + 2 * ll128::place(), extent};
  }
  __device__ Share given(int place, uint32_t line) const {
    return callers(address(place, TwoShotPlace::kGiven), line, slice_.given_of[place]);
  }

  // The pairs of place `p` of a batch, of lines from `line` on.
  template <int kSome>
  __device__ void store(uint64_t to, uint32_t line, const Extent& extent, const Pairs<kSome>& pairs, int p) const {
    if (is_flagged(to)) {
#pragma unroll
      for (int l = 0; l < kSome; ++l) {
        const uint32_t at = line + l * lines_apart();
        if (exists(at, extent)) ll128::store(stored(to, at), pairs[l][p], ll128::has_flag(), flag_);
      }
    } else if (is_whole || is_user(to)) {
#pragma unroll
      for (int l = 0; l < kSome; ++l) callers(to, line + l * lines_apart(), extent).store(pairs[l][p]);
    }
  }

  __device__ uint64_t address(int place, TwoShotPlace::Field field) const { return places_[place].addresses[field]; }

  __device__ std::byte* stored(uint64_t address, uint32_t line) const {
    return global_pointer(without_flag(address) + (ll128_at_ + line * static_cast<uint32_t>(kLl128Bytes)));
  }

  const TwoShotLaunch& launch_;
  const TwoShotSteps::Slice& slice_;
  const bool given_is_one_;
  const Extent* taken_of_;  // of the taking at hand, as
  const TwoShotPlace* places_;
  const uint32_t lines_;    // of the place that has most
  const uint64_t user_at_;  // where the slice starts in the caller's memory
  uint32_t ll128_at_ = 0;   // where this thread's part of this epoch's first line is, from the addresses on
  uint64_t flag_ = 0;
  Pairs<kLines> given_;  // of a batch
};

}  // namespace plait
