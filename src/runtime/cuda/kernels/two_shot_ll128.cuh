// Two-shot calls with LL128: eight threads handle a line, and all of its places, one batch after the other.
#pragma once

#include <type_traits>

#include "runtime/cuda/device/elements.cuh"
#include "runtime/cuda/device/user_buffer.cuh"
#include "runtime/cuda/kernels/channel.cuh"
#include "runtime/cuda/kernels/ll128.cuh"
#include "runtime/cuda/kernels/two_shot_kernel.hpp"
#include "runtime/cuda/kernels/user_share.cuh"

namespace plait {

// A thread loads kLines lines and kPlaces places of each at once. `is_aligned`: as in TwoShotProgram.
template <DataType type, int kLines, int kPlaces, bool is_aligned>
class TwoShotLl128 {
 public:
  __device__ TwoShotLl128(const TwoShotLaunch& launch, const TwoShotSteps::Slice& slice)
      : launch_(launch),
        slice_(slice),
        sends_same_(slice.sends_same),
        received_extents_(slice.received_extents[0]),
        places_(slice.places[0]),
        lines_((slice.most.words + ll128::kWords - 1) / ll128::kWords),
        user_at_(blockIdx.x * launch.slice_bytes) {}

  // Starts loading the first places of the first lines from user buffers.
  __device__ void load() { load_batch(0, first_of_warp() + in_warp()); }

  // Call it after Channel::begin().
  __device__ void send(const Channel& channel) {
    flag_ = channel.epoch();
    ll128_at_ = channel.ll128_from_first() + ll128::place() * static_cast<uint32_t>(sizeof(ll128::WordPair));
    for_each_round([&](uint32_t of_warp) {
      for (int first = 0; first < slice_.sent; first += kPlaces) {
        if (of_warp != first_of_warp() || first != 0) load_batch(first, of_warp + in_warp());
        send_batch(first, of_warp + in_warp());
      }
      return true;
    });
  }

  // Also lets the next launch start. False: given up.
  __device__ bool receive(const Channel& channel) {
#pragma unroll 1
    for (int phase = 0; phase < slice_.phase_count; ++phase) {
      const bool is_good =
          for_each_round([&](uint32_t of_warp) { return receive(channel, slice_.phases[phase], of_warp + in_warp()); });
      if (!is_good) return false;
      places_ += kMostGroup;
      received_extents_ += kMostGroup;
    }
    let_next_launch_begin_after_first_warp();
    return true;
  }

 private:
  using Word = Pack<type, uint64_t>;
  using Accumulator = typename Word::Accumulator;
  using Extent = TwoShotSteps::Extent;
  template <int kSome>  // lines
  using Pairs = ll128::WordPair[kSome][kPlaces];
  static constexpr uint32_t kLinesOfWarp = kWarpThreads / ll128::kThreads;

  struct Sum {
    Accumulator low[Word::kCount], high[Word::kCount];
  };

  // Performs act(line) for the first line of each of this warp's rounds. All threads of the warp perform a round
  // together, since they vote and exchange parts of words. False: act(line) was false.
  template <class Act>
  __device__ bool for_each_round(const Act& act) const {
    for (uint32_t line = first_of_warp(); line < lines_; line += of_round()) {
      if (!act(line)) return false;
    }
    return true;
  }

  // Performs act(l, p) for kSome lines and the places of a batch, as far as the place is one of `places`.
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

  __device__ void load_batch(int first, uint32_t line) {
    for_each<kLines>(first, slice_.sent, [&](int l, int p) {
      if (p == 0 || !sends_same_) sent_[l][p] = sent(first + p, line + l * lines_apart()).load();
    });
    if constexpr (!is_aligned) {
      for_each<kLines>(first, slice_.sent, [&](int l, int p) {
        if (p == 0 || !sends_same_) sent(first + p, line + l * lines_apart()).load_ends(sent_[l][p]);
      });
    }
  }

  __device__ void send_batch(int first, uint32_t line) {
    if constexpr (!is_aligned) {
      for_each<kLines>(first, slice_.sent, [&](int l, int p) {
        if (p == 0 || !sends_same_) sent(first + p, line + l * lines_apart()).complete(sent_[l][p]);
      });
    }
    for_each_place(first, slice_.sent, [&](int p) {
#pragma unroll
      for (int l = 0; l < kLines; ++l) sent_[l][p] = p > 0 && sends_same_ ? sent_[l][0] : sent_[l][p];
      store<kLines>(address(first + p, TwoShotPlace::kSendTo), line, slice_.sent_extents[first + p], sent_, p);
    });
  }

  // Receives this thread's lines of a round, beginning with `line`.
  __device__ bool receive(const Channel& channel, const TwoShotSteps::Phase& phase, uint32_t line) const {
    if (phase.combined == 0 || phase.places <= kPlaces) return receive_some<kLines>(channel, phase, line);
    // Registers cannot hold the sums of several lines while further places are awaited.
#pragma unroll 1
    for (int l = 0; l < kLines; ++l) {
      if (!receive_some<1>(channel, phase, line + l * lines_apart())) return false;
    }
    return true;
  }

  // If several lines are combined at once, all places are in one batch.
  template <int kSome>
  __device__ bool receive_some(const Channel& channel, const TwoShotSteps::Phase& phase, uint32_t line) const {
    Pairs<kSome> pairs;
    Sum sum;  // of the line, if there is only one
#pragma unroll 1
    for (int first = 0; first < phase.places; first += kPlaces) {
      if (!await<kSome>(channel, phase, first, line, pairs)) return false;
      if (phase.combined == 0) {
        for_each_place(first, phase.places, [&](int p) {
          store<kSome>(address(first + p, TwoShotPlace::kReceiveTo), line, received_extents_[first + p], pairs, p);
        });
      } else if constexpr (kSome == 1) {
        for_each<1>(first, phase.combined, [&](int, int p) { add(pairs[0][p], p == 0 && first == 0, sum); });
      }
    }
    if (phase.combined == 0) return true;
    if constexpr (kSome == 1) {
      pairs[0][0] = narrow(sum);
    } else {
#pragma unroll
      for (int l = 0; l < kSome; ++l) {
        for_each<1>(0, phase.combined, [&](int, int p) { add(pairs[l][p], p == 0, sum); });
        pairs[l][0] = narrow(sum);
      }
    }
#pragma unroll 1
    for (int place = 0; place < phase.results; ++place) {
      store<kSome>(address(place, TwoShotPlace::kReceiveTo), line, received_extents_[place], pairs, 0);
    }
    return true;
  }

  // Loads the pairs of a batch once they have arrived. False: given up.
  template <int kSome>
  __device__ bool await(const Channel& channel, const TwoShotSteps::Phase& phase, int first, uint32_t line,
                        Pairs<kSome>& pairs) const {
    unsigned missing = 0;
    for_each<kSome>(first, phase.places, [&](int l, int p) {
      const uint64_t from = address(first + p, TwoShotPlace::kReceive);
      const uint32_t at = line + l * lines_apart();
      if (!is_flagged(from)) {
        pairs[l][p] = user_share(from, at, received_extents_[first + p]).load();
      } else if (exists(at, received_extents_[first + p])) {
        missing |= bit(l, p);
      }
    });
    const auto for_each_user = [&](const auto& act) {
      for_each<kSome>(first, phase.places, [&](int l, int p) {
        const uint64_t from = address(first + p, TwoShotPlace::kReceive);
        if (!is_flagged(from))
          act(user_share(from, line + l * lines_apart(), received_extents_[first + p]), pairs[l][p]);
      });
    };
    if constexpr (!is_aligned) for_each_user([](const auto& share, ll128::WordPair& pair) { share.load_ends(pair); });
    BoundedSpin spin;
    while (__any_sync(kWholeWarp, missing != 0)) {
      for_each<kSome>(first, phase.places, [&](int l, int p) {
        if ((missing & bit(l, p)) == 0) return;
        pairs[l][p] = ll128::load(stored(address(first + p, TwoShotPlace::kReceive), line + l * lines_apart()));
      });
      for_each<kSome>(first, phase.places, [&](int l, int p) {
        if (ll128::has_come(pairs[l][p], flag_)) missing &= ~bit(l, p);
      });
      if (!__any_sync(kWholeWarp, missing != 0 && spin.is_over(launch_.self))) continue;
      if (missing != 0) {
        // Loads the first missing pair again: choosing among the pairs would take more registers than there are.
        const int first_missing = __ffs(static_cast<int>(missing)) - 1;
        const uint64_t from = address(first + first_missing % kPlaces, TwoShotPlace::kReceive);
        const ll128::WordPair seen = ll128::load(stored(from, line + first_missing / kPlaces * lines_apart()));
        if (ll128::has_flag()) channel.give_up_on_data(from, seen.high);
      }
      return false;
    }
    if constexpr (!is_aligned) for_each_user([](const auto& share, ll128::WordPair& pair) { share.complete(pair); });
    return true;
  }

  __device__ static unsigned bit(int line, int place) { return 1u << (line * kPlaces + place); }

  __device__ static void add(const ll128::WordPair& pair, bool is_first, Sum& sum) {
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

  __device__ static ll128::WordPair narrow(const Sum& sum) {
    Word low, high;
    low.narrow(sum.low);
    high.narrow(sum.high);
    return {low.bits, high.bits};
  }

  // A thread's lines are as far apart as the CTA handles lines at once, so that all warps have work even for few lines.
  // If places are not aligned, registers are short, and lines are as far apart as a warp handles lines: a constant.
  static constexpr bool kAreOfCta = is_aligned;
  __device__ static uint32_t lines_apart() { return kAreOfCta ? blockDim.x / ll128::kThreads : kLinesOfWarp; }
  // The first line of this thread's warp, the number of this thread's line in the warp, and the number of lines of a
  // round.
  __device__ static uint32_t first_of_warp() {
    return threadIdx.x / kWarpThreads * kLinesOfWarp * (kAreOfCta ? 1 : kLines);
  }
  __device__ static uint32_t in_warp() { return threadIdx.x % kWarpThreads / ll128::kThreads; }
  __device__ static uint32_t of_round() { return kLines * (blockDim.x / ll128::kThreads); }

  // Whether a place of this extent has the line.
  __device__ static bool exists(uint32_t line, const Extent& extent) { return line * ll128::kWords < extent.words; }

  // This thread's share of a line in a user buffer.
  using Share = std::conditional_t<is_aligned, AlignedShare, UnalignedShare<Word>>;
  __device__ Share user_share(uint64_t address, uint32_t line, const Extent& extent) const {
    return {global_pointer(address + user_at_), line * ll128::kWords + 2 * ll128::place(), extent};
  }
  __device__ Share sent(int place, uint32_t line) const {
    return user_share(address(place, TwoShotPlace::kSend), line, slice_.sent_extents[place]);
  }

  // Stores the pairs of place `p` of a batch, for the lines from `line` on.
  template <int kSome>
  __device__ void store(uint64_t to, uint32_t line, const Extent& extent, const Pairs<kSome>& pairs, int p) const {
    if (is_flagged(to)) {
#pragma unroll
      for (int l = 0; l < kSome; ++l) {
        const uint32_t at = line + l * lines_apart();
        if (exists(at, extent)) ll128::store(stored(to, at), pairs[l][p], ll128::has_flag(), flag_);
      }
    } else if (is_aligned || is_user(to)) {
#pragma unroll
      for (int l = 0; l < kSome; ++l) user_share(to, line + l * lines_apart(), extent).store(pairs[l][p]);
    }
  }

  __device__ uint64_t address(int place, TwoShotPlace::Field field) const { return places_[place].addresses[field]; }

  __device__ std::byte* stored(uint64_t address, uint32_t line) const {
    return global_pointer(without_flag(address) + (ll128_at_ + line * static_cast<uint32_t>(kLl128LineBytes)));
  }

  const TwoShotLaunch& launch_;
  const TwoShotSteps::Slice& slice_;
  const bool sends_same_;
  const Extent* received_extents_;  // of the current phase, as is the next member
  const TwoShotPlace* places_;
  const uint32_t lines_;    // of the largest place
  const uint64_t user_at_;  // offset of the slice in user buffers
  uint32_t ll128_at_ = 0;   // distance from an LL address to this thread's part of this epoch's first line
  uint64_t flag_ = 0;
  Pairs<kLines> sent_;  // of a batch
};

}  // namespace plait
