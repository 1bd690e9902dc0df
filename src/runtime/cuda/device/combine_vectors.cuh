// Vectors that are combined from several places in user buffers or in scratch.
#pragma once

#include <type_traits>

#include "runtime/cuda/device/elements.cuh"
#include "runtime/cuda/device/packed.cuh"
#include "runtime/cuda/device/unaligned.cuh"

namespace plait {

// Facts about vectors, which are Packs.
template <class Vector>
inline constexpr bool kIsNarrow = sizeof(typename Vector::Storage) < sizeof(uint32_t);
template <class Vector>
inline constexpr bool kHasIntegers = std::is_integral_v<typename Vector::Accumulator>;
// There is no instruction that converts them: that takes registers, which are for fewer loads then.
template <class Vector>
inline constexpr bool kConvertsSlowly =
    sizeof(typename Vector::Storage) == 1 && !kHasIntegers<Vector> && !kConvertsFloat8;

// Part of a vector while it is combined: a whole one, or a word of narrow elements, so that few are wide at a time, as
// registers are for loads. `is_plain_sum`: nothing is done but adding. Extrema of narrow elements are a MinMaxPart's.
template <class Vector, bool is_plain_sum>
class WidePart {
 public:
  static constexpr int kInVector = kIsNarrow<Vector> ? 4 : 1;

  __device__ void begin(const Vector& vector, int part) { vector.widen(elements_, part * kElements); }

  __device__ void combine(ReduceOp op, const Vector& vector, int part) {
    Accumulator next[kElements];
    vector.widen(next, part * kElements);
    if constexpr (is_plain_sum) {
      plait::combine(Add{}, elements_, next);
    } else {
      plait::combine<Except>(op, elements_, next);
    }
  }

  __device__ void end(int divisor, Vector& result, int part) {
    if constexpr (!is_plain_sum) divide(elements_, divisor);
    result.narrow(elements_, part * kElements);
  }

 private:
  using Accumulator = typename Vector::Accumulator;
  using Except = std::conditional_t<kIsNarrow<Vector>, Extremum, void>;
  static constexpr int kElements = Vector::kCount / kInVector;

  Accumulator elements_[kElements];
};

template <class Vector>
using SumPart = std::conditional_t<kHasIntegers<Vector>, PackedPart<Vector, true>, WidePart<Vector, true>>;
template <class Vector>
using MinMaxPart = std::conditional_t<kHasIntegers<Vector>, PackedPart<Vector, false>, PairsPart<Vector>>;

// Calls `use` with the type of part that `op` takes. The most frequent operations have code of their own, without a
// branch for each part.
template <class Vector, class Use>
__device__ void with_part(ReduceOp op, int divisor, const Use& use) {
  if constexpr (kIsNarrow<Vector>) {
    if (combines_by<Extremum>(op)) return use.template operator()<MinMaxPart<Vector>>();
    if (combines_by<Add>(op) && divisor == 0) return use.template operator()<SumPart<Vector>>();
  }
  use.template operator()<WidePart<Vector, false>>();
}

// Combines vectors of places at(0) to at(`sources` - 1), in this order, and divides by `divisor` if that is not 0. The
// vectors are `first`, `first` + `stride` and so on, below `last`. With `kSources` 0 they are loaded one after the
// other; else all loads are under way before the first is used. Vector: a Pack. `is_aligned`: all places are, to its
// size; if not, see load_vectors().
template <bool is_aligned, int kSources, class Vector, int kVectors, class At>
__device__ void combine_vectors(ReduceOp op, int sources, int divisor, const At& at, uint32_t first, uint32_t stride,
                                uint32_t last, Vector (&results)[kVectors]) {
  constexpr int kAtOnce = kSources > 0 ? kSources : 1;
  Vector values[kAtOnce][kVectors];
  const auto load = [&](int source, Vector(&to)[kVectors]) {
    load_vectors<is_aligned>(at(source), first, stride, last, to);
  };
  const auto complete = [&](int source, Vector(&to)[kVectors]) {
    complete_vectors<is_aligned>(at(source), first, stride, last, to);
  };
#pragma unroll
  for (int s = 0; s < kAtOnce; ++s) load(s, values[s]);
#pragma unroll
  for (int s = 0; s < kAtOnce; ++s) complete(s, values[s]);
  with_part<Vector>(op, divisor, [&]<class VectorPart>() {
    constexpr int kInVector = VectorPart::kInVector, kParts = kVectors * kInVector;
    if constexpr (kSources > 0) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int u = part / kInVector, of_it = part % kInVector;
        VectorPart sum;
        sum.begin(values[0][u], of_it);
#pragma unroll
        for (int s = 1; s < kSources; ++s) sum.combine(op, values[s][u], of_it);
        sum.end(divisor, results[u], of_it);
      }
    } else {
      VectorPart sums[kParts];
#pragma unroll
      for (int part = 0; part < kParts; ++part) sums[part].begin(values[0][part / kInVector], part % kInVector);
      for (int s = 1; s < sources; ++s) {
        load(s, values[0]);
        complete(s, values[0]);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          sums[part].combine(op, values[0][part / kInVector], part % kInVector);
        }
      }
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        sums[part].end(divisor, results[part / kInVector], part % kInVector);
      }
    }
  });
}

}  // namespace plait
