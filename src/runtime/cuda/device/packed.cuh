// Combines the narrow elements of a 32-bit word at once, without widening them.
#pragma once

#include <type_traits>

#include "runtime/cuda/device/device_types.cuh"
#include "runtime/cuda/device/elements.cuh"

namespace plait {

// The highest bit of each integer of a word.
template <class T>
inline constexpr uint32_t kTopBits = sizeof(T) == 1 ? 0x80808080 : 0x80008000;

// Adds all integers of a word; each wraps on its own.
template <class T>
__device__ uint32_t add_packed(uint32_t a, uint32_t b) {
  constexpr uint32_t kTops = kTopBits<T>;  // nothing may be carried out of these
  return ((a & ~kTops) + (b & ~kTops)) ^ ((a ^ b) & kTops);
}

template <class T>
__device__ uint32_t min_max_packed(Extremum extremum, uint32_t a, uint32_t b) {
  constexpr uint32_t kTops = kTopBits<T>;
  constexpr int kBits = 8 * sizeof(T);
  // Signed ones are ordered as unsigned ones are whose top bit is the other one.
  const uint32_t x = std::is_signed_v<T> ? a ^ kTops : a, y = std::is_signed_v<T> ? b ^ kTops : b;
  const uint32_t low_not_less = (x | kTops) - (y & ~kTops);  // its top bits: what lies below those of x, and of y
  const uint32_t not_less = ((x & ~y) | (~(x ^ y) & low_not_less)) & kTops;
  const uint32_t whole = (not_less - (not_less >> (kBits - 1))) | not_less;
  const uint32_t take_a = extremum.is_maximum() ? whole : ~whole;
  return (a & take_a) | (b & ~take_a);
}

// The extremum of each of the two. Before sm_80 no instruction does that, and what CUDA's headers have instead
// does not order -0 and +0 of bfloat16.
template <class Pair>
__device__ Pair min_max_of_pairs(Extremum extremum, Pair a, Pair b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return extremum.is_maximum() ? __hmax2_nan(a, b) : __hmin2_nan(a, b);
#else
  const auto of_two = [extremum]<class T>(T x, T y) {
    return T(extremum(static_cast<float>(x), static_cast<float>(y)));
  };
  return {of_two(a.x, b.x), of_two(a.y, b.y)};
#endif
}

// A word of integers: their sums, or their minima or maxima.
template <class Vector, bool is_sum>
class PackedPart {
 public:
  static constexpr int kInVector = 4;

  __device__ void begin(const Vector& vector, int part) { word_ = vector.words[part]; }
  __device__ void combine(ReduceOp op, const Vector& vector, int part) {
    const uint32_t next = vector.words[part];
    if constexpr (is_sum) {
      word_ = add_packed<Storage>(word_, next);
    } else {
      word_ = min_max_packed<Storage>(combining_of<Extremum>(op), word_, next);
    }
  }
  __device__ void end(int, Vector& result, int part) { result.words[part] = word_; }

 private:
  using Storage = typename Vector::Storage;

  uint32_t word_;
};

// A word of narrow floats: their minima or maxima.
template <class Vector>
class PairsPart {
 public:
  static constexpr int kInVector = 4;

  __device__ void begin(const Vector& vector, int part) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) pairs_[i] = Facts::comparable(vector.pairs[part * kPairs + i]);
  }
  __device__ void combine(ReduceOp op, const Vector& vector, int part) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const Comparable next = Facts::comparable(vector.pairs[part * kPairs + i]);
      pairs_[i] = min_max_of_pairs(combining_of<Extremum>(op), pairs_[i], next);
    }
  }
  __device__ void end(int, Vector& result, int part) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) result.pairs[part * kPairs + i] = Facts::from_comparable(pairs_[i]);
  }

 private:
  using Facts = typename Vector::Facts;
  using Comparable = typename Facts::Comparable;
  static constexpr int kPairs = sizeof(uint32_t) / sizeof(typename Facts::Pair);

  Comparable pairs_[kPairs];
};

}  // namespace plait
