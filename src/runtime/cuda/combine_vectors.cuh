// Vectors that are combined from several places in the caller's memory or in scratch.
#pragma once

#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/unaligned.cuh"

namespace plait {

// Vectors `first`, `first` + `stride` and so on, as far as they are less than `last`, of places at(0) to
// at(`sources` - 1), combined in this order and divided by `divisor` if that is not 0. `kSources` 0: as many as there
// are, loaded one after the other; else all loads are under way before the first is used. Vector: a Pack.
// `is_aligned`: all places are, to its size; if not, see load_vectors().
template <bool is_aligned, int kSources, class Vector, int kVectors, class At>
__device__ void combine_vectors(ReduceOp op, int sources, int divisor, const At& at, uint32_t first, uint32_t stride,
                                uint32_t last, Vector (&results)[kVectors]) {
  using Accumulator = typename Vector::Accumulator;
  if constexpr (kSources > 0) {
    Vector values[kSources][kVectors];
#pragma unroll
    for (int s = 0; s < kSources; ++s) load_vectors<is_aligned>(at(s), first, stride, last, values[s]);
#pragma unroll
    for (int s = 0; s < kSources; ++s) complete_vectors<is_aligned>(at(s), first, stride, last, values[s]);
#pragma unroll
    for (int u = 0; u < kVectors; ++u) {
      Accumulator sum[Vector::kCount], next[Vector::kCount];
      values[0][u].widen(sum);
#pragma unroll
      for (int s = 1; s < kSources; ++s) {
        values[s][u].widen(next);
        combine(op, sum, next);
      }
      divide(sum, divisor);
      results[u].narrow(sum);
    }
  } else {
    Accumulator sums[kVectors][Vector::kCount], next[Vector::kCount];
    Vector values[kVectors];
    load_vectors<is_aligned>(at(0), first, stride, last, values);
    complete_vectors<is_aligned>(at(0), first, stride, last, values);
#pragma unroll
    for (int u = 0; u < kVectors; ++u) values[u].widen(sums[u]);
    for (int s = 1; s < sources; ++s) {
      load_vectors<is_aligned>(at(s), first, stride, last, values);
      complete_vectors<is_aligned>(at(s), first, stride, last, values);
#pragma unroll
      for (int u = 0; u < kVectors; ++u) {
        values[u].widen(next);
        combine(op, sums[u], next);
      }
    }
#pragma unroll
    for (int u = 0; u < kVectors; ++u) {
      divide(sums[u], divisor);
      results[u].narrow(sums[u]);
    }
  }
}

}  // namespace plait
