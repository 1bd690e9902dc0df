// Arithmetic on vectors of elements: widened where the type accumulates in float32, combined, rounded once.
#pragma once

#include <type_traits>

#include "base/by_combining.hpp"
#include "runtime/cuda/device/device_types.cuh"

namespace plait {

// Where vectors of narrow elements are combined, compilers for newer GPUs hold more in registers at a time.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
inline constexpr bool kHoldsMore = true;
#else
inline constexpr bool kHoldsMore = false;
#endif

// a <- a combined with b.
template <class Combining, class T, int count>
__device__ void combine(Combining combining, T (&a)[count], const T (&b)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) a[i] = combine_numbers(combining, a[i], b[i]);
}

// a <- a (op) b. The operation is the same for all threads, so the branch costs nothing beside the memory accesses.
// `Except`: a way to combine that it has not.
template <class Except = void, class T, int count>
__device__ void combine(ReduceOp op, T (&a)[count], const T (&b)[count]) {
  with_combining<T, Except>(op, [&](auto combining) { combine(combining, a, b); });
}

// a <- a / divisor, unless that is 0; towards zero, of integers. The divisor is a number of ranks, most often a power
// of two, by which one divides exactly in an instruction or two.
template <class T, int count>
__device__ void divide(T (&a)[count], int divisor) {
  if (divisor == 0) return;
  constexpr uint32_t kOne = 127;  // the exponent of 1
  constexpr int kMantissaBits = 23;
  union {
    float value;
    uint32_t bits;
  } power = {static_cast<float>(divisor)};
  if ((divisor & (divisor - 1)) != 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) a[i] = static_cast<T>(a[i] / static_cast<T>(divisor));
  } else if constexpr (std::is_integral_v<T>) {
    const uint32_t exponent = (power.bits >> kMantissaBits) - kOne;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if constexpr (std::is_signed_v<T>) a[i] = static_cast<T>(a[i] + (a[i] < 0 ? divisor - 1 : 0));
      a[i] = static_cast<T>(a[i] >> exponent);
    }
  } else {
    power.bits = (2 * kOne << kMantissaBits) - power.bits;  // 1 / power
#pragma unroll
    for (int i = 0; i < count; ++i) a[i] *= static_cast<T>(power.value);
  }
}

// Combines the results of load(0) to load(`sources` - 1), in this order, and divides. It is for rare cases, one element
// at a time.
template <class Load>
__device__ auto combine_one_by_one(ReduceOp op, int sources, int divisor, const Load& load) {
  decltype(load(0)) result[1] = {load(0)};
#pragma unroll 1
  for (int s = 1; s < sources; ++s) {
    const decltype(load(0)) next[1] = {load(s)};
    combine(op, result, next);
  }
  divide(result, divisor);
  return result[0];
}

// The elements that fit into Bits (an unsigned integer type or uint4), as bits and as numbers.
template <DataType type, class Bits>
struct Pack {
  using Facts = DeviceType<type>;
  using Storage = typename Facts::Storage;
  using Accumulator = typename Facts::Accumulator;
  static constexpr int kCount = sizeof(Bits) / sizeof(Storage);

  union {
    Bits bits;
    Storage elements[kCount];
    typename Facts::Pair pairs[kCount > 1 ? kCount / 2 : 1];
    uint32_t words[sizeof(Bits) / sizeof(uint32_t)];
  };

  __device__ Pack() {}
  __device__ explicit Pack(Bits from) : bits(from) {}

  // Elements `first` and on, as many as the other side holds: one, or an even number from an even one on.
  template <int count>
  __device__ void widen(Accumulator (&to)[count], int first = 0) const {
    if constexpr (kConvertsPairs && count > 1) {
#pragma unroll
      for (int i = 0; i < count; i += 2) {
        const float2 two = Facts::widen(pairs[(first + i) / 2]);
        to[i] = two.x;
        to[i + 1] = two.y;
      }
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i) to[i] = Facts::widen(elements[first + i]);
    }
  }
  template <int count>
  __device__ void narrow(const Accumulator (&from)[count], int first = 0) {
    if constexpr (kConvertsPairs && count > 1) {
#pragma unroll
      for (int i = 0; i < count; i += 2) {
        pairs[(first + i) / 2] = Facts::narrow(float2{from[i], from[i + 1]});
      }
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i) elements[first + i] = Facts::narrow(from[i]);
    }
  }

 private:
  static constexpr bool kConvertsPairs = !std::is_same_v<Storage, Accumulator>;
};

}  // namespace plait
