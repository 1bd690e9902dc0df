// Conversions of 8-bit floats, run on a CPU: by instructions, which CUDA's headers emulate on hosts, and in few
// operations. They give the same as CUDA's headers, which work differently, except that infinity stays infinity.
// Combined elements are what the oracle of the host's reduces says.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

// clang-format off: ahead of all kernels
#include "support/simt.hpp"
// clang-format on
#include "runtime/cuda/device/combine_vectors.cuh"
#include "runtime/cuda/device/float8.cuh"
#include "unit/runtime/host/reduce_oracle.hpp"

namespace plait {
namespace {

static_assert(!kConvertsFloat8);

constexpr bool has_infinity(__nv_fp8_interpretation_t format) { return format == __NV_E5M2; }

// Every NaN becomes the one with all bits set except the sign.
__nv_fp8_storage_t rounded(float value, __nv_fp8_interpretation_t format) {
  if (std::isnan(value)) return 0x7f;
  if (std::isinf(value) && has_infinity(format)) return value < 0 ? 0xfc : 0x7c;
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, format);
}

bool are_alike(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

template <template <__nv_fp8_interpretation_t> class Conversion, __nv_fp8_interpretation_t format>
void expect_same_values() {
  for (uint32_t both = 0; both <= 0xffff; ++both) {
    const auto two = static_cast<__nv_fp8x2_storage_t>(both);
    const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, format);
    const float2 ours = __half22float2(Conversion<format>::to_halves(two)), theirs = __half22float2(__half2(halves));
    ASSERT_TRUE(are_alike(ours.x, theirs.x) && are_alike(ours.y, theirs.y)) << std::hex << both;
    const auto is_other_nan = [](float value, uint32_t code) { return std::isnan(value) && code != 0x7f; };
    if (is_other_nan(ours.x, both & 0xff) || is_other_nan(ours.y, both >> 8)) continue;
    ASSERT_EQ(Conversion<format>::from_halves(__half2(halves)), both) << std::hex << both;
  }
}

// Tries all floats whose lower bits are equal except the last one: exact values, ties, their neighbours, infinity and
// its neighbours.
template <template <__nv_fp8_interpretation_t> class Conversion, __nv_fp8_interpretation_t format>
void expect_same_rounding() {
  constexpr int kLowerBits = 14;  // fewer than rounding drops, so that there are ties
  constexpr uint32_t kAllSet = (1u << kLowerBits) - 1;
  const __nv_fp8_storage_t one = rounded(1, format);
  for (uint32_t upper = 0; upper < 1u << (32 - kLowerBits); ++upper) {
    for (const uint32_t lower : {0u, 1u, kAllSet - 1, kAllSet}) {
      const auto value = std::bit_cast<float>(upper << kLowerBits | lower);
      const __nv_fp8_storage_t expected = rounded(value, format);
      ASSERT_EQ(Conversion<format>::round(value), expected) << value;
      ASSERT_EQ(Conversion<format>::round(float2{value, 1}), one << 8 | expected) << value;
      ASSERT_EQ(Conversion<format>::round(float2{1, value}), expected << 8 | one) << value;
    }
  }
}

TEST(Float8OnCpu, WidensAsCudaDoes) {
  expect_same_values<Float8InFewOperations, __NV_E4M3>();
  expect_same_values<Float8InFewOperations, __NV_E5M2>();
  expect_same_values<Float8ByInstruction, __NV_E4M3>();
  expect_same_values<Float8ByInstruction, __NV_E5M2>();
}

TEST(Float8OnCpu, RoundsAsCudaDoes) {
  expect_same_rounding<Float8InFewOperations, __NV_E4M3>();
  expect_same_rounding<Float8InFewOperations, __NV_E5M2>();
  expect_same_rounding<Float8ByInstruction, __NV_E4M3>();
  expect_same_rounding<Float8ByInstruction, __NV_E5M2>();
}

// Combines a vector whose elements are the codes from `first` on with one whose elements are all `other`.
template <DataType type>
void combine_with(ReduceOp op, uint32_t first, uint32_t other, const oracle::Format& format) {
  using Vector = Pack<type, uint4>;
  constexpr int kCount = Vector::kCount;
  Vector given[2], results[1];
  for (int e = 0; e < kCount; ++e) {
    given[0].elements[e] = static_cast<__nv_fp8_storage_t>(first + e);
    given[1].elements[e] = static_cast<__nv_fp8_storage_t>(other);
  }
  const int divisor = divisor_of(op, 2);
  const auto at = [&](int s) { return reinterpret_cast<const std::byte*>(&given[s].bits); };
  combine_vectors<true, 2>(op, 2, divisor, at, 0, 1, 1, results);
  for (uint32_t e = 0; e < kCount; ++e) {
    const float total = oracle::combine<float>(op, format.decode(first + e), format.decode(other));
    ASSERT_EQ(results[0].elements[e], format.encode(oracle::divide<float>(total, divisor)))
        << name(op) << " of codes " << first + e << " and " << other;
  }
}

template <DataType type>
void combine_every_pair() {
  const oracle::Format format(type);
  for (const ReduceOp op : reductions_of(type)) {
    for (uint32_t other = 0; other < 256; ++other) {
      for (uint32_t first = 0; first < 256; first += Pack<type, uint4>::kCount) {
        combine_with<type>(op, first, other, format);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Float8OnCpu, CombinesEveryPairAsTheOracle) {
  combine_every_pair<DataType::kFloat8E4M3>();
  combine_every_pair<DataType::kFloat8E5M2>();
}

}  // namespace
}  // namespace plait
