// Conversions of 8-bit floats: by instructions where a GPU has them (from compute capability 8.9 on), else in few
// operations. (What CUDA's headers have instead is a loop over bits, as long as all else in a kernel.)
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <cstring>

namespace plait {

// Whether there are such instructions.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
inline constexpr bool kConvertsFloat8 = true;

template <__nv_fp8_interpretation_t format>
struct Float8Conversion {
  static __device__ __half2 to_halves(__nv_fp8x2_storage_t two) {
    return __half2(__nv_cvt_fp8x2_to_halfraw2(two, format));
  }
  static __device__ __nv_fp8x2_storage_t from_halves(__half2 two) {
    return __nv_cvt_halfraw2_to_fp8x2(two, __NV_SATFINITE, format);
  }
  static __device__ __nv_fp8_storage_t round(float value) {
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, format);
  }
  static __device__ __nv_fp8x2_storage_t round(float2 two) {
    return __nv_cvt_float2_to_fp8x2(two, __NV_SATFINITE, format);
  }
};

#else
inline constexpr bool kConvertsFloat8 = false;

template <__nv_fp8_interpretation_t format>
class Float8Conversion {
 public:
  static __device__ __half2 to_halves(__nv_fp8x2_storage_t two) {
    const uint32_t upper = (two & 0xffu) << 8 | (two & 0xff00u) << 16;  // bytes of halves
    if constexpr (kIsUpperByte) {
      return bits_as<__half2>(upper);
    } else {
      const uint32_t magnitudes = (upper & 0x7f007f00) >> 1;
      const uint32_t scaled = bits_as<uint32_t>(__hmul2(bits_as<__half2>(magnitudes), __float2half2_rn(kScale)));
      const uint32_t nans = (magnitudes + 0x00800080) & 0x40004000;  // of the last code only, which carries so far
      return bits_as<__half2>((upper & 0x80008000) | scaled | ((nans << 1) - (nans >> 14)));
    }
  }

  // Of values that the format has, and of no NaN but the one with all bits set.
  static __device__ __nv_fp8x2_storage_t from_halves(__half2 two) {
    const auto halves = bits_as<uint32_t>(two);
    const uint32_t magnitudes = halves & 0x7fff7fff;
    uint32_t upper;
    if constexpr (kIsUpperByte) {
      // Infinity, above which only NaN are, becomes what lies below it.
      const uint32_t infinities = (magnitudes + 0x04000400) & ~(magnitudes + 0x03ff03ff) & 0x80008000;
      upper = halves - (infinities >> 7);
    } else {
      const auto scaled = bits_as<uint32_t>(__hmul2(bits_as<__half2>(magnitudes), __float2half2_rn(1 / kScale)));
      upper = (halves & 0x80008000) | (scaled << 1 & 0x7f007f00);
    }
    return static_cast<__nv_fp8x2_storage_t>((upper >> 8 & 0xff) | (upper >> 16 & 0xff00));
  }

  static __device__ __nv_fp8_storage_t round(float value) {
    const auto bits = bits_as<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffff, clamped = min(magnitude, bits_as<uint32_t>(kLargest));
    // The adder rounds: the last bit of the anchor weighs as much as the last bit of the result.
    const uint32_t exponent = max(clamped & kInfinity, (kBiasOfFloat + 1 - kBias) << kMantissaOfFloat);
    const auto anchor = bits_as<float>(exponent + (kDropped << kMantissaOfFloat));
    const float rounded = (bits_as<float>(clamped) + anchor) - anchor;
    // Where exponents have the bias of the format, floats begin as it does.
    const auto rebased = bits_as<uint32_t>(rounded * bits_as<float>(kBias << kMantissaOfFloat));
    const uint32_t code = magnitude > kInfinity ? 0x7f : (bits >> 24 & 0x80) | rebased >> kDropped;
    return static_cast<__nv_fp8_storage_t>(code);
  }
  static __device__ __nv_fp8x2_storage_t round(float2 two) {
    return static_cast<__nv_fp8x2_storage_t>(round(two.x) | round(two.y) << 8);
  }

 private:
  // An E5M2 is the upper byte of a half. An E4M3, shifted by one, is what is 256 times as much as a half.
  static constexpr bool kIsUpperByte = format == __NV_E5M2;
  static constexpr float kScale = 256;
  static constexpr float kLargest = kIsUpperByte ? 57344 : 448;
  static constexpr uint32_t kBias = kIsUpperByte ? 15 : 7, kBiasOfFloat = 127;
  static constexpr uint32_t kMantissaOfFloat = 23, kDropped = kMantissaOfFloat - (kIsUpperByte ? 2 : 3);
  static constexpr uint32_t kInfinity = 0x7f800000;

  template <class To, class From>
  static __device__ To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(static_cast<void*>(&to), &from, sizeof(to));
    return to;
  }
};

#endif

}  // namespace plait
