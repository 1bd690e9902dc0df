// Compares inputs times scalars with the reduces' oracle, and checks numbers as scalars.
#include "runtime/host/scale.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "unit/runtime/host/reduce_oracle.hpp"

namespace plait {
namespace {

using oracle::Bytes;

Bytes random_bytes(std::mt19937_64& random, size_t count) {
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

Scalar random_scalar(std::mt19937_64& random, DataType type) {
  Scalar scalar;
  scalar.type = type;
  scalar.value = std::bit_cast<std::array<std::byte, 8>>(random());
  return scalar;
}

Bytes expected_products(const Bytes& input, const Scalar& scalar) {
  const size_t bytes = size_of(scalar.type), elements = input.size() / bytes;
  Bytes scalars;
  const auto* value = reinterpret_cast<const unsigned char*>(scalar.value.data());
  for (size_t i = 0; i < elements; ++i) scalars.insert(scalars.end(), value, value + bytes);
  return oracle::reduce({scalar.type, ReduceOp::kProduct, elements, {input, scalars}, {0, 0}});
}

TEST(Scale, GivesTheProductsOfEveryType) {
  std::mt19937_64 random(7);
  for (int t = 0; t < kDataTypeCount; ++t) {
    const auto type = static_cast<DataType>(t);
    for (const size_t elements : {0, 1, 2, 15, 64, 1000, 8191, 8192, 8193, 20'011}) {
      for (const size_t offset : {0, 1, 8}) {
        const Bytes input = random_bytes(random, elements * size_of(type));
        const Scalar scalar = random_scalar(random, type);
        Bytes from(offset), to(offset + input.size() + 8, 0xcd);
        from.insert(from.end(), input.begin(), input.end());
        scale(from.data() + offset, to.data() + offset, elements, scalar);
        const Bytes expected = expected_products(input, scalar);
        ASSERT_EQ(Bytes(to.begin() + static_cast<ptrdiff_t>(offset), to.end() - 8), expected)
            << name(type) << ", " << elements << " elements at " << offset;
        EXPECT_EQ(Bytes(to.end() - 8, to.end()), Bytes(8, 0xcd));
        EXPECT_EQ(Bytes(from.begin() + static_cast<ptrdiff_t>(offset), from.end()), input);
        scale(from.data() + offset, from.data() + offset, elements, scalar);
        EXPECT_EQ(Bytes(from.begin() + static_cast<ptrdiff_t>(offset), from.end()), expected) << "in place";
      }
    }
  }
}

TEST(Products, LieInTheOutputWhereItMayHoldThem) {
  std::vector<float> input = {1, 2, 3, 4}, output(4, -1);
  const Scalar scalar = make_scalar(DataType::kFloat32, 0.5);
  const auto make = [&](Collective collective, int root, float* to) {
    static Products products;
    const Call call{collective, DataType::kFloat32, ReduceOp::kSum, root,
                    collective == Collective::kReduceScatter ? 2u : 4u};
    return products.make(call, 1, 16, scalar, input.data(), to);
  };
  const std::vector<float> halves = {0.5f, 1, 1.5f, 2};
  EXPECT_EQ(make(Collective::kAllReduce, 0, output.data()), output.data());
  EXPECT_EQ(output, halves);
  output.assign(4, -1);
  EXPECT_EQ(make(Collective::kReduce, 1, output.data()), output.data());
  EXPECT_EQ(output, halves);
  output.assign(4, -1);
  for (const Collective collective : {Collective::kReduce, Collective::kReduceScatter}) {
    const auto* apart = static_cast<const float*>(make(collective, 0, output.data()));
    EXPECT_NE(apart, output.data());
    EXPECT_EQ(std::vector<float>(apart, apart + 4), halves);
  }
  EXPECT_EQ(output, std::vector<float>(4, -1));
  EXPECT_EQ(input, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(make(Collective::kAllReduce, 0, input.data()), input.data());
  EXPECT_EQ(input, halves);
}

// The sanitizer's allocator ends the program if there is no memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

TEST(Products, SayWhenThereIsNoMemory) {
  if (kSanitized) GTEST_SKIP();
  Products products;
  const size_t bytes = size_t{1} << 62;
  const Call call{Collective::kReduceScatter, DataType::kUint8, ReduceOp::kSum, 0, bytes / 2};
  try {
    products.make(call, 0, bytes, make_scalar(DataType::kUint8, int64_t{1}), nullptr, nullptr);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResources);
    EXPECT_NE(std::string(error.what()).find("pre-multiplied"), std::string::npos) << error.what();
  }
}

// ---- Numbers as scalars.

template <class T, class Number>
T made(DataType type, Number number) {
  const Scalar scalar = make_scalar(type, number);
  EXPECT_EQ(scalar.type, type);
  EXPECT_EQ(scalar.on_device, nullptr);
  T value;
  std::memcpy(&value, scalar.value.data(), sizeof(value));
  return value;
}

template <class Number>
std::string refusal(DataType type, Number number) {
  try {
    make_scalar(type, number);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(Scalar, OfIntegersIsExactOrRefused) {
  EXPECT_EQ(made<int8_t>(DataType::kInt8, int64_t{-128}), -128);
  EXPECT_EQ(made<uint8_t>(DataType::kUint8, 255.0), 255);
  EXPECT_EQ(made<int32_t>(DataType::kInt32, -2147483648.0), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(made<int64_t>(DataType::kInt64, -9223372036854775808.0), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(made<uint64_t>(DataType::kUint64, ~uint64_t{0}), ~uint64_t{0});
  EXPECT_EQ(made<int64_t>(DataType::kInt64, (int64_t{1} << 53) + 1), (int64_t{1} << 53) + 1);
  EXPECT_EQ(refusal(DataType::kInt8, int64_t{128}), "the scalar 128 is not a int8: it does not fit");
  EXPECT_EQ(refusal(DataType::kUint16, int64_t{-1}), "the scalar -1 is not a uint16: it does not fit");
  EXPECT_EQ(refusal(DataType::kUint16, -1.0), "the scalar -1 is not a uint16: it does not fit");
  EXPECT_NE(refusal(DataType::kInt64, 9223372036854775808.0), "");
  EXPECT_NE(refusal(DataType::kInt64, ~uint64_t{0}), "");
  EXPECT_NE(refusal(DataType::kUint64, 18446744073709551616.0), "");
  EXPECT_EQ(refusal(DataType::kInt32, 0.5), "the scalar 0.5 is not a int32: it is not whole");
  EXPECT_NE(refusal(DataType::kInt32, std::nan("")).find("not a number"), std::string::npos);
  EXPECT_NE(refusal(DataType::kInt32, INFINITY), "");
}

TEST(Scalar, OfFloatsIsRoundedOnceOrRefused) {
  EXPECT_EQ(made<float>(DataType::kFloat32, 0.1), 0.1f);
  EXPECT_EQ(made<double>(DataType::kFloat64, int64_t{3}), 3.0);
  EXPECT_EQ(made<double>(DataType::kFloat64, 1e308), 1e308);
  EXPECT_EQ(made<uint16_t>(DataType::kFloat16, 1.0), 0x3c00);
  EXPECT_EQ(made<uint16_t>(DataType::kFloat16, -65504.0), 0xfbff);
  EXPECT_EQ(made<uint16_t>(DataType::kFloat16, INFINITY), 0x7c00);
  EXPECT_EQ(made<uint16_t>(DataType::kBfloat16, 0.5), 0x3f00);
  EXPECT_EQ(made<uint8_t>(DataType::kFloat8E4M3, 2.0), 0x40);
  EXPECT_EQ(made<uint8_t>(DataType::kFloat8E5M2, 2.0), 0x40);
  EXPECT_EQ(made<uint8_t>(DataType::kFloat8E4M3, std::nan("")), 0x7f);
  EXPECT_TRUE(std::isnan(made<float>(DataType::kFloat32, std::nan(""))));
  // Just more than half way between two numbers: float32 would lose by how little.
  EXPECT_EQ(made<uint16_t>(DataType::kFloat16, 1 + std::ldexp(1, -11) + std::ldexp(1, -40)), 0x3c01);
  EXPECT_EQ(made<uint16_t>(DataType::kFloat16, 1 + 3 * std::ldexp(1, -11) - std::ldexp(1, -40)), 0x3c01);
  EXPECT_EQ(made<uint16_t>(DataType::kBfloat16, -(1 + std::ldexp(1, -8) + std::ldexp(1, -40))), 0xbf81);
  // The same for whole numbers, for which float64 would lose it.
  const int64_t above_half = (int64_t{1} << 62) + (int64_t{1} << 38) + 1;
  EXPECT_EQ(made<float>(DataType::kFloat32, above_half), 0x1.000002p62f);
  EXPECT_EQ(made<float>(DataType::kFloat32, -above_half), -0x1.000002p62f);
  EXPECT_EQ(made<float>(DataType::kFloat32, -(above_half - 2)), -0x1p62f);
  EXPECT_EQ(made<uint16_t>(DataType::kBfloat16, (uint64_t{1} << 63) + (uint64_t{1} << 55) + 1), 0x5f01);
  EXPECT_EQ(made<double>(DataType::kFloat64, (int64_t{1} << 53) + 1), 0x1p53);
  EXPECT_EQ(made<uint16_t>(DataType::kFloat16, 1e-30), 0);
  EXPECT_EQ(refusal(DataType::kFloat16, 1e5), "the scalar 100000 is not a float16: it is too large");
  EXPECT_NE(refusal(DataType::kFloat32, 1e39), "");
  EXPECT_NE(refusal(DataType::kBfloat16, 1e39), "");
  EXPECT_NE(refusal(DataType::kFloat8E4M3, 449.0), "");
  EXPECT_NE(refusal(DataType::kFloat8E4M3, INFINITY), "");
  EXPECT_EQ(made<uint8_t>(DataType::kFloat8E5M2, -INFINITY), 0xfc);
}

}  // namespace
}  // namespace plait
