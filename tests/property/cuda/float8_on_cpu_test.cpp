// Conversions of 8-bit floats without instructions for them, run on a CPU: they give what those of CUDA's headers give,
// which are made otherwise.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

// clang-format off: ahead of all kernels
#include "support/simt.hpp"
// clang-format on
#include "runtime/cuda/float8.cuh"

namespace plait {
namespace {

static_assert(!kConvertsFloat8);

// All NaN are the one with all bits set but the sign.
template <__nv_fp8_interpretation_t format>
__nv_fp8_storage_t round_by_cuda(float value) {
  return value != value ? 0x7f : __nv_cvt_float_to_fp8(value, __NV_SATFINITE, format);
}

template <__nv_fp8_interpretation_t format>
void expect_same_values() {
  for (uint32_t both = 0; both <= 0xffff; ++both) {
    const auto two = static_cast<__nv_fp8x2_storage_t>(both);
    const float2 ours = __half22float2(Float8Conversion<format>::to_halves(two));
    const float2 theirs = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(two, format)));
    const auto are_alike = [](float a, float b) {
      return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
    };
    ASSERT_TRUE(are_alike(ours.x, theirs.x) && are_alike(ours.y, theirs.y)) << std::hex << both;
    const auto is_other_nan = [](float value, uint32_t code) { return value != value && code != 0x7f; };
    if (is_other_nan(ours.x, both & 0xff) || is_other_nan(ours.y, both >> 8)) continue;
    const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, format);
    ASSERT_EQ(Float8Conversion<format>::from_halves(__half2(halves)),
              __nv_cvt_halfraw2_to_fp8x2(halves, __NV_SATFINITE, format))
        << std::hex << both;
  }
}

// Of all floats those whose lower bits are all alike but for the last one: exact values, ties, what lies beside them.
template <__nv_fp8_interpretation_t format>
void expect_same_rounding() {
  constexpr int kLowerBits = 14;  // fewer than are dropped, so that ties are tried
  constexpr uint32_t kAllSet = (1u << kLowerBits) - 1;
  for (uint32_t upper = 0; upper < 1u << (32 - kLowerBits); ++upper) {
    for (const uint32_t lower : {0u, 1u, kAllSet - 1, kAllSet}) {
      const auto value = std::bit_cast<float>(upper << kLowerBits | lower);
      const __nv_fp8_storage_t expected = round_by_cuda<format>(value);
      ASSERT_EQ(Float8Conversion<format>::round(value), expected) << value;
      ASSERT_EQ(Float8Conversion<format>::round(float2{value, 1}), round_by_cuda<format>(1) << 8 | expected) << value;
    }
  }
}

TEST(Float8OnCpu, WidensAsCudaDoes) {
  expect_same_values<__NV_E4M3>();
  expect_same_values<__NV_E5M2>();
}

TEST(Float8OnCpu, RoundsAsCudaDoes) {
  expect_same_rounding<__NV_E4M3>();
  expect_same_rounding<__NV_E5M2>();
}

}  // namespace
}  // namespace plait
