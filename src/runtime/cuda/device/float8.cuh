// Conversions of 8-bit floats: by instructions on GPUs that have them (compute capability 8.9 and later), otherwise in
// few operations. (CUDA's headers have a loop over bits instead, as long as all the rest of a kernel.)
//
// Rounding is to nearest even, and values that are too large become the largest finite number. E5M2 keeps infinity,
// although the instructions make it the largest finite number, too; E4M3 has no infinity.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <cstring>

namespace plait {

template <class To, class From>
__device__ To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof(to));
  return to;
}

// The upper bytes of two halves: the upper byte of a half is an E5M2.
inline __device__ __nv_fp8x2_storage_t upper_bytes(uint32_t halves) {
  return static_cast<__nv_fp8x2_storage_t>((halves >> 8 & 0xff) | (halves >> 16 & 0xff00));
}

template <__nv_fp8_interpretation_t format>
class Float8ByInstruction {
 public:
  static __device__ __half2 to_halves(__nv_fp8x2_storage_t two) {
    return __half2(__nv_cvt_fp8x2_to_halfraw2(two, format));
  }
  // Only for values that the format has, and for the NaN with all bits set.
  static __device__ __nv_fp8x2_storage_t from_halves(__half2 two) {
    if constexpr (kHasInfinity) {
      return upper_bytes(bits_as<uint32_t>(two));
    } else {
      return __nv_cvt_halfraw2_to_fp8x2(two, __NV_SATFINITE, format);
    }
  }
  static __device__ __nv_fp8_storage_t round(float value) {
    return static_cast<__nv_fp8_storage_t>(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, format) + beyond(value));
  }
  static __device__ __nv_fp8x2_storage_t round(float2 two) {
    const __nv_fp8x2_storage_t rounded = __nv_cvt_float2_to_fp8x2(two, __NV_SATFINITE, format);
    return static_cast<__nv_fp8x2_storage_t>(rounded + beyond(two.x) + (beyond(two.y) << 8));
  }

 private:
  static constexpr bool kHasInfinity = format == __NV_E5M2;

  // How many codes the instruction's result lies below the right one: the code of infinity is the one after the largest
  // finite number's.
  static __device__ uint32_t beyond(float value) { return kHasInfinity && isinf(value) ? 1 : 0; }
};

template <__nv_fp8_interpretation_t format>
class Float8InFewOperations {
 public:
  static __device__ __half2 to_halves(__nv_fp8x2_storage_t two) {
    const uint32_t upper = (two & 0xffu) << 8 | (two & 0xff00u) << 16;  // bytes of halves
    if constexpr (kIsUpperByte) {
      return bits_as<__half2>(upper);
    } else {
      const uint32_t magnitudes = (upper & 0x7f007f00) >> 1;
      const uint32_t scaled = bits_as<uint32_t>(__hmul2(bits_as<__half2>(magnitudes), __float2half2_rn(kScale)));
      const uint32_t nans = (magnitudes + 0x00800080) & 0x40004000;  // only the last code, NaN, carries this far
      return bits_as<__half2>((upper & 0x80008000) | scaled | ((nans << 1) - (nans >> 14)));
    }
  }

  // Only for values that the format has, and for the NaN with all bits set.
  static __device__ __nv_fp8x2_storage_t from_halves(__half2 two) {
    const auto halves = bits_as<uint32_t>(two);
    if constexpr (kIsUpperByte) {
      return upper_bytes(halves);
    } else {
      const auto magnitudes = bits_as<__half2>(halves & 0x7fff7fff);
      const auto scaled = bits_as<uint32_t>(__hmul2(magnitudes, __float2half2_rn(1 / kScale)));
      return upper_bytes((halves & 0x80008000) | (scaled << 1 & 0x7f007f00));
    }
  }

  static __device__ __nv_fp8_storage_t round(float value) {
    const auto bits = bits_as<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffff, clamped = min(magnitude, bits_as<uint32_t>(kLargest));
    // Adding the anchor rounds, since its last bit weighs as much as the last bit of the result.
    const uint32_t exponent = max(clamped & kInfinity, (kBiasOfFloat + 1 - kBias) << kMantissaOfFloat);
    const auto anchor = bits_as<float>(exponent + (kDropped << kMantissaOfFloat));
    const float rounded = (bits_as<float>(clamped) + anchor) - anchor;
    // With the exponent bias of the format, the leading bits of a float are the code.
    const auto rebased = bits_as<uint32_t>(rounded * bits_as<float>(kBias << kMantissaOfFloat));
    uint32_t code = (bits >> 24 & 0x80) | rebased >> kDropped;
    if (kIsUpperByte && magnitude == kInfinity) code += 1;  // the code after the largest finite number's
    return static_cast<__nv_fp8_storage_t>(magnitude > kInfinity ? 0x7f : code);
  }
  static __device__ __nv_fp8x2_storage_t round(float2 two) {
    return static_cast<__nv_fp8x2_storage_t>(round(two.x) | round(two.y) << 8);
  }

 private:
  // An E4M3 shifted right by one bit, read as a half, is the value divided by 256.
  static constexpr bool kIsUpperByte = format == __NV_E5M2;
  static constexpr float kScale = 256;
  static constexpr float kLargest = kIsUpperByte ? 57344 : 448;
  static constexpr uint32_t kBias = kIsUpperByte ? 15 : 7, kBiasOfFloat = 127;
  static constexpr uint32_t kMantissaOfFloat = 23, kDropped = kMantissaOfFloat - (kIsUpperByte ? 2 : 3);
  static constexpr uint32_t kInfinity = 0x7f800000;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
inline constexpr bool kConvertsFloat8 = true;
template <__nv_fp8_interpretation_t format>
using Float8Conversion = Float8ByInstruction<format>;
#else
inline constexpr bool kConvertsFloat8 = false;
template <__nv_fp8_interpretation_t format>
using Float8Conversion = Float8InFewOperations<format>;
#endif

}  // namespace plait
