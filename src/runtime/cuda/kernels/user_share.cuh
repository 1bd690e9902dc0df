// A thread's share of an LL128 line in a user buffer: two neighbouring words of eight bytes, or one if its second word
// in the line is the flag.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/device/ptx.cuh"
#include "runtime/cuda/device/user_buffer.cuh"
#include "runtime/cuda/kernels/ll128.cuh"
#include "runtime/cuda/lowering/two_shot_program.hpp"

namespace plait {

// A share of memory that is 8-byte aligned and consists of full words.
class AlignedShare {
 public:
  // The share that begins with word `first` of a place that begins at `memory` and has this extent.
  __device__ AlignedShare(std::byte* memory, uint32_t first, const TwoShotSteps::Extent& extent)
      : words_(reinterpret_cast<uint64_t*>(memory) + first),
        has_low_(first < extent.words),
        has_high_(first + 1 < extent.words && !ll128::has_flag()) {}

  __device__ ll128::WordPair load() const {
    ll128::WordPair pair;
    if (has_low_) pair.low = words_[0];
    if (has_high_) pair.high = words_[1];
    return pair;
  }

  __device__ void store(const ll128::WordPair& pair) const {
    if (has_low_) words_[0] = pair.low;
    if (has_high_) words_[1] = pair.high;
  }

 private:
  uint64_t* const words_;
  const bool has_low_, has_high_;
};

// A share of any memory. Word is a Pack of 64 bits.
//
// A thread accesses the aligned words that its share lies in, and exchanges parts of them with its neighbours in the
// warp (as unaligned.cuh does with vectors). So all threads of a warp have to take part, with consecutive lines. Words
// at the ends of a place belong to it only in part. Only that part is accessed, so that nothing outside the place is
// read or written.
template <class Word>
class UnalignedShare {
 public:
  // The arguments are those of AlignedShare.
  __device__ UnalignedShare(std::byte* memory, uint32_t first, const TwoShotSteps::Extent& extent)
      : shift_(static_cast<int>(reinterpret_cast<uintptr_t>(memory) % kWordBytes)),
        words_(reinterpret_cast<uint64_t*>(memory - shift_) + first),
        is_first_(first == 0),
        end_(shift_ + static_cast<int>(extent.bytes()) - static_cast<int>(first) * kWordBytes) {}

  // Loading takes three steps, so that other loads can be issued in between. load() loads the aligned words that wholly
  // belong to the place, load_ends() loads the words at its ends, and complete() joins the words to the share.
  __device__ ll128::WordPair load() const {
    ll128::WordPair pair;
    if (is_full(0, first())) pair.low = ptx::load_around(words_, ll128::place() == 0 ? shift_ : 0, kWordBytes);
    if (is_full(1, 0)) pair.high = ptx::load_around(words_ + 1, 0, ll128::has_flag() ? shift_ : kWordBytes);
    return pair;
  }
  __device__ void load_ends(ll128::WordPair& pair) const {
    if (is_end(0, first())) pair.low = load_end(0, first());
    if (is_end(1, 0)) pair.high = load_end(1, 0);
  }
  __device__ void complete(ll128::WordPair& pair) const {
    const uint64_t next = __shfl_down_sync(kWholeWarp, pair.low, 1);
    if (shift_ == 0) return;
    const int bits = shift_ * 8;
    pair.low = pair.low >> bits | pair.high << (64 - bits);
    pair.high = pair.high >> bits | next << (64 - bits);
  }

  // Each thread stores the aligned words in which its words begin; the last thread of the warp also stores the rest.
  __device__ void store(ll128::WordPair pair) const {
    const uint64_t before = __shfl_up_sync(kWholeWarp, ll128::has_flag() ? pair.low : pair.high, 1);
    if (shift_ > 0) {
      const int bits = shift_ * 8;
      pair.high = pair.low >> (64 - bits) | pair.high << bits;
      pair.low = before >> (64 - bits) | pair.low << bits;
    }
    const int in_warp = static_cast<int>(threadIdx.x % kWarpThreads);
    const int first = in_warp == 0 ? shift_ : 0, last_low = last(0);
    const int all = !ll128::has_flag() ? kWordBytes : in_warp == kWarpThreads - 1 ? shift_ : 0;
    const int last_high = min(last(1), all);
    const bool low_is_full = first == 0 && last_low == kWordBytes, high_is_full = last_high == kWordBytes;
    if (low_is_full) words_[0] = pair.low;
    if (high_is_full) words_[1] = pair.high;
    // A thread has at most one end of the place, unless its share is all of the place.
    const bool has_low_end = !low_is_full && first < last_low, has_high_end = !high_is_full && last_high > 0;
    if (has_low_end) {
      store_end(0, first, last_low, pair.low);
    } else if (has_high_end) {
      store_end(1, 0, last_high, pair.high);
    }
    if (has_low_end && has_high_end) store_end(1, 0, last_high, pair.high);
  }

 private:
  static constexpr int kWordBytes = sizeof(uint64_t);
  static constexpr int kElement = kWordBytes / Word::kCount;

  // The first byte of the share's first aligned word that belongs to the place.
  __device__ int first() const { return is_first_ ? shift_ : 0; }
  // The end of the place within an aligned word of the share.
  __device__ int last(int number) const { return min(end_ - number * kWordBytes, kWordBytes); }
  __device__ bool is_full(int number, int first) const { return first == 0 && end_ >= (number + 1) * kWordBytes; }
  __device__ bool is_end(int number, int first) const { return !is_full(number, first) && first < last(number); }
  __device__ std::byte* bytes_of(int number) const { return reinterpret_cast<std::byte*>(words_ + number); }

  __device__ uint64_t load_end(int number, int first) const {
    return load_some_elements<Word>(bytes_of(number), first / kElement, last(number) / kElement);
  }
  __device__ void store_end(int number, int first, int last, uint64_t bits) const {
    store_some_elements<Word>(bytes_of(number) + first, last - first, bits >> first * 8);
  }

  const int shift_;        // distance of the place from an aligned word
  uint64_t* const words_;  // the first aligned word
  const bool is_first_;    // whether the share is the first of the place
  const int end_;          // the place's end, counted from the first aligned word
};

}  // namespace plait
