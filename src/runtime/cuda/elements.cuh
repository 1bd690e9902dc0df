// Arithmetic on vectors of elements: widened where the type accumulates in float32, combined, rounded once.
#pragma once

#include <type_traits>

#include "base/types.hpp"
#include "runtime/cuda/device_types.cuh"

namespace plait {

template <class T>
__device__ T combine_min_max(bool want_max, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return want_max ? (a < b ? b : a) : (b < a ? b : a);
  } else {
    // NaN wins, and -0 is less than +0, as on the host.
    if (isnan(a) || isnan(b)) return static_cast<T>(NAN);
    if (a == b) return want_max == static_cast<bool>(signbit(a)) ? b : a;
    return want_max == (a < b) ? b : a;
  }
}

template <class T>
__device__ T combine_sum(T a, T b) {
  // Integers wrap: signed overflow is defined where the sum is taken without sign.
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <class T>
__device__ T combine_product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

// a <- a + b.
template <class T, int count>
__device__ void add(T (&a)[count], const T (&b)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) a[i] = combine_sum(a[i], b[i]);
}

// a <- a (op) b. The operation is the same for all threads, so the branch costs nothing beside the memory accesses.
template <class T, int count>
__device__ void combine(ReduceOp op, T (&a)[count], const T (&b)[count]) {
  if (op == ReduceOp::kSum || op == ReduceOp::kAverage) {
    add(a, b);
  } else if (op == ReduceOp::kProduct) {
#pragma unroll
    for (int i = 0; i < count; ++i) a[i] = combine_product(a[i], b[i]);
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) a[i] = combine_min_max(op == ReduceOp::kMax, a[i], b[i]);
  }
}

template <class T, int count>
__device__ void divide(T (&a)[count], int divisor) {
  if (divisor == 0) return;
#pragma unroll
  for (int i = 0; i < count; ++i) a[i] = static_cast<T>(a[i] / static_cast<T>(divisor));
}

// As many elements as fit into Bits (an unsigned integer type or uint4), as bits and as numbers.
template <DataType type, class Bits>
struct Pack {
  using Facts = DeviceType<type>;
  using Storage = typename Facts::Storage;
  using Accumulator = typename Facts::Accumulator;
  static constexpr int kCount = sizeof(Bits) / sizeof(Storage);

  union {
    Bits bits;
    Storage elements[kCount];
  };

  __device__ Pack() {}
  __device__ explicit Pack(Bits from) : bits(from) {}

  __device__ void widen(Accumulator (&to)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = Facts::widen(elements[i]);
  }
  __device__ void narrow(const Accumulator (&from)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) elements[i] = Facts::narrow(from[i]);
  }
};

}  // namespace plait
