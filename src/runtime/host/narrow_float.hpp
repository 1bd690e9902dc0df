// Floating types of 8 and 16 bits: widening to float32 (exact) and narrowing (to nearest even, once), without branches,
// one register at a time. The formulas use integers and additions whose rounding is known, so every instruction set
// gives the same bits. F16C, if the CPU has it, computes the same function in one instruction.
//
// Special values come out as NVIDIA GPUs make them. NaN has all bits but the sign set. Overflow gives infinity in 16
// bits and the largest finite number in 8 bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/host/simd.hpp"

namespace plait {
namespace {

template <int N>
using Floats = Lanes<float, N>;
template <int N>
using Bits = Lanes<uint32_t, N>;
template <int N>
using Codes16 = Lanes<uint16_t, N>;

template <int N>
inline Floats<N> power_of_two(int exponent) {
  return bits_as<Floats<N>>(splat<uint32_t, N>(static_cast<uint32_t>(exponent + 127) << 23));
}

// Replaces NaN of any kind by the one with all bits set but the sign.
template <class T, int N>
inline Lanes<T, N> with_one_nan(Lanes<T, N> value) {
  using B = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  return value != value ? bits_as<Lanes<T, N>>(splat<B, N>(~B{0} >> 1)) : value;
}

// ---- float16: sign, 5 bits of exponent, 10 of mantissa. (narrow_float16 keeps the upper bits of a NaN.)

#if defined(__AVX512F__)  // in the masked forms, as GCC 12 warns of the others

template <int N>
inline Floats<N> widen_float16(Codes16<N> codes) {
  return bits_as<Floats<N>>(_mm512_maskz_cvtph_ps(0xffff, bits_as<__m256i>(codes)));
}
template <int N>
inline Codes16<N> narrow_float16(Floats<N> value) {
  return bits_as<Codes16<N>>(_mm512_maskz_cvtps_ph(0xffff, bits_as<__m512>(value), _MM_FROUND_TO_NEAREST_INT));
}

#elif defined(__F16C__)

template <int N>
inline Floats<N> widen_float16(Codes16<N> codes) {
  return bits_as<Floats<N>>(_mm256_cvtph_ps(bits_as<__m128i>(codes)));
}
template <int N>
inline Codes16<N> narrow_float16(Floats<N> value) {
  return bits_as<Codes16<N>>(_mm256_cvtps_ph(bits_as<__m256>(value), _MM_FROUND_TO_NEAREST_INT));
}

#else

constexpr int kLeastExponent16 = -14;               // of normal numbers
constexpr uint32_t kRebase16 = (127u - 15u) << 23;  // between the biases of the exponents

template <int N>
inline Floats<N> widen_float16(Codes16<N> codes) {
  const Bits<N> code = widen_integers<N>(codes);
  const Bits<N> aligned = (code & 0x7fffu) << 13;
  // A subnormal number is a mantissa without a leading one: add a leading one and subtract it again.
  const Floats<N> one = power_of_two<N>(kLeastExponent16);
  const Bits<N> subnormal = bits_as<Bits<N>>(bits_as<Floats<N>>(aligned + bits_as<Bits<N>>(one)) - one);

  const auto compared = bits_as<Lanes<int32_t, N>>(code & 0x7fffu);  // x86 compares signed integers only
  const Bits<N> finite = compared < 0x0400 ? subnormal : aligned + kRebase16;
  return bits_as<Floats<N>>((compared < 0x7c00 ? finite : aligned | 0x7f800000u) | (code >> 15) << 31);
}

template <int N>
inline Codes16<N> narrow_float16(Floats<N> value) {
  const Bits<N> bits = bits_as<Bits<N>>(value);
  const Bits<N> magnitude = bits & 0x7fffffffu;
  // Round to nearest even: add just under half a unit, or exactly half if the last bit that stays is odd. A carry runs
  // into the exponent, as it should. (Results that become subnormal wrap around here and are replaced below.)
  const Bits<N> rounded = (magnitude - kRebase16 + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  const Bits<N> infinity = splat<uint32_t, N>(0x7c00u);
  const Bits<N> normal = rounded < infinity ? rounded : infinity;
  // The adder rounds subnormal results: the last bit of `anchor` weighs as much as the last bit of a code.
  const Floats<N> absolute = bits_as<Floats<N>>(magnitude);
  const Floats<N> anchor = power_of_two<N>(kLeastExponent16 + 13);
  const Bits<N> subnormal = bits_as<Bits<N>>(absolute + anchor) - bits_as<Bits<N>>(anchor);

  const Bits<N> number = (absolute < power_of_two<N>(kLeastExponent16) ? subnormal : normal) | (bits >> 31) << 15;
  return narrow_integers<N>(value != value ? (bits >> 13) & 0x7fffu : number);
}

#endif

struct Float16 {
  using Code = uint16_t;
  template <int N>
  static Floats<N> widen(Codes16<N> codes) {
    return widen_float16<N>(codes);
  }
  template <int N>
  static Codes16<N> narrow(Floats<N> value) {
    return narrow_float16<N>(with_one_nan<float, N>(value));
  }
};

// ---- bfloat16: the upper half of a float32.

struct Bfloat16 {
  using Code = uint16_t;
  template <int N>
  static Floats<N> widen(Codes16<N> codes) {
    return bits_as<Floats<N>>(widen_integers<N>(codes) << 16);
  }
  template <int N>
  static Codes16<N> narrow(Floats<N> value) {
    const Bits<N> bits = bits_as<Bits<N>>(value);
    const Bits<N> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // to nearest even, as above
    return narrow_integers<N>(value != value ? splat<uint32_t, N>(0x7fffu) : rounded);
  }
};

// ---- float8: every value is also a float16. So it is rounded in float32 and passes through float16 unchanged.

// Rounds to a format with so many bits of mantissa, whose normal numbers begin at 2^least_exponent. Saturates; infinity
// too, unless the format has infinity.
template <bool has_infinity, int N>
inline Floats<N> round_to_format(Floats<N> value, int mantissa_bits, int least_exponent, float largest) {
  using Signed = Lanes<int32_t, N>;  // as signed integers, the bits of positive numbers have the order of the numbers
  const Signed limit = splat<int32_t, N>(bits_as<int32_t>(largest));
  const Signed absolute = bits_as<Signed>(value) & 0x7fffffff;
  const Signed clamped = absolute < limit ? absolute : limit;
  // The adder rounds: the last bit of `anchor` weighs as much as the last bit of the result.
  const Signed exponent = clamped & 0x7f800000;
  const Signed least = splat<int32_t, N>((least_exponent + 127) << 23);
  const auto anchor = bits_as<Floats<N>>((exponent > least ? exponent : least) + ((23 - mantissa_bits) << 23));
  Floats<N> rounded = (bits_as<Floats<N>>(clamped) + anchor) - anchor;
  if constexpr (has_infinity) {
    const Floats<N> infinity = splat<float, N>(__builtin_inff());
    rounded = bits_as<Floats<N>>(absolute) == infinity ? infinity : rounded;
  }

  const Bits<N> sign = bits_as<Bits<N>>(value) & 0x80000000u;
  return value != value ? bits_as<Floats<N>>(splat<uint32_t, N>(0x7fffffffu))
                        : bits_as<Floats<N>>(bits_as<Bits<N>>(rounded) | sign);
}

// 5 bits of exponent, 2 of mantissa: the upper half of a float16.
struct Float8E5M2 {
  using Code = uint8_t;
  template <int N>
  static Floats<N> widen(Lanes<uint8_t, N> codes) {
    return widen_float16<N>(widen_bytes<N>(codes) << 8);
  }
  template <int N>
  static Lanes<uint8_t, N> narrow(Floats<N> value) {
    return narrow_bytes<N>(narrow_float16<N>(round_to_format<true, N>(value, 2, -14, 57344.0f)) >> 8);
  }
};

// 4 bits of exponent, 3 of mantissa; no infinity, and only the last code is NaN. Scaled by 2^-8, the difference of the
// exponents' biases, its bits are those of a float16, shifted by one.
struct Float8E4M3 {
  using Code = uint8_t;
  template <int N>
  static Floats<N> widen(Lanes<uint8_t, N> codes) {
    const Codes16<N> code = widen_bytes<N>(codes);
    const Codes16<N> magnitude = code & 0x7f;
    const Codes16<N> nan = bits_as<Codes16<N>>(magnitude == 0x7f);
    return widen_float16<N>((code & 0x80) << 8 | magnitude << 7 | nan) * power_of_two<N>(8);
  }
  template <int N>
  static Lanes<uint8_t, N> narrow(Floats<N> value) {
    const Codes16<N> scaled = narrow_float16<N>(round_to_format<false, N>(value, 3, -6, 448.0f) * power_of_two<N>(-8));
    return narrow_bytes<N>((scaled & 0x8000) >> 8 | (scaled >> 7 & 0x7f));
  }
};

}  // namespace
}  // namespace plait
