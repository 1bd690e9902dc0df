// How two elements become one: the arithmetic of reductions, in one source for hosts and GPUs. It takes numbers, and on
// hosts registers of them (runtime/host/simd.hpp). Functions that take registers are always inlined: files compiled for
// AVX-512 use them, and the linker must not take their copy for others.
#pragma once

#include <math.h>  // isnan() and signbit() without a namespace, which nvcc makes better code of

#include <cstdint>
#include <type_traits>

#include "base/host_device.hpp"
#include "base/reductions.hpp"

namespace plait {

template <class V>
concept Register = requires(V lanes) { lanes[0]; };

template <class V>
inline constexpr bool kHasFloats = std::is_floating_point_v<V>;
template <Register V>
inline constexpr bool kHasFloats<V> = std::is_floating_point_v<std::remove_cvref_t<decltype(V{}[0])>>;

// Kinds of combining, which rows of the table name. A kind whose reductions differ has the reduction as its member.
// kOrders says whether results depend on the sign of integers. If not, they come as unsigned ones, which wrap.

struct Add {
  static constexpr bool kOrders = false;
  template <class V>
  [[gnu::always_inline]] PLAIT_HOST_DEVICE constexpr V operator()(V a, V b) const {
    return a + b;
  }
};

struct Multiply {
  static constexpr bool kOrders = false;
  template <class V>
  [[gnu::always_inline]] PLAIT_HOST_DEVICE constexpr V operator()(V a, V b) const {
    return a * b;
  }
};

// Maximum and minimum, which share their code. For floats they are those of IEEE 754-2019: NaN wins, and -0 is less
// than +0.
struct Extremum {
  static constexpr bool kOrders = true;
  ReduceOp op;

  PLAIT_HOST_DEVICE constexpr bool is_maximum() const { return op == ReduceOp::kMax; }

  template <class V>
  [[gnu::always_inline]] PLAIT_HOST_DEVICE constexpr V operator()(V a, V b) const {
    if constexpr (!kHasFloats<V>) {
      return is_maximum() ? (a < b ? b : a) : (b < a ? b : a);
    } else if constexpr (Register<V>) {
      return is_maximum() ? -least(-a, -b) : least(a, b);
    } else {
      return of_numbers(is_maximum(), a, b);
    }
  }

 private:
  // Not inlined by hand: so nvcc asks which of the two it is outside of loops.
  template <class T>
  PLAIT_HOST_DEVICE static constexpr T of_numbers(bool wants_maximum, T a, T b) {
    if (isnan(a) || isnan(b)) return a + b;
    if (a == b) return wants_maximum == static_cast<bool>(signbit(a)) ? b : a;
    return wants_maximum == (a < b) ? b : a;
  }
  // Without a branch. The two differ only if one is NaN (whose bits survive the union) or they are zeros (where -0
  // survives).
  template <Register V>
  [[gnu::always_inline]] static constexpr V least(V a, V b) {
    using Bits = decltype(a < b);
    return __builtin_bit_cast(V, __builtin_bit_cast(Bits, a < b ? a : b) | __builtin_bit_cast(Bits, b < a ? b : a));
  }
};

// Combines two numbers.
template <class Combining, class T>
[[gnu::always_inline]] PLAIT_HOST_DEVICE constexpr T combine_numbers(Combining combining, T a, T b) {
  if constexpr (std::is_integral_v<T> && !Combining::kOrders) {
    using Unsigned = std::conditional_t<sizeof(T) == sizeof(uint64_t), uint64_t, uint32_t>;
    return static_cast<T>(combining(static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  } else {
    return combining(a, b);
  }
}

}  // namespace plait
