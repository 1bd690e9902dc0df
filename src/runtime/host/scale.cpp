#include "runtime/host/scale.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "runtime/host/reduce.hpp"

namespace plait {
namespace {

// A block of equal scalars, which a reduce takes as a second source. It stays in the first-level cache.
constexpr size_t kScaledBytes = 8192;
// Memory that a rank keeps from call to call: allocating it again would cost more than the products.
constexpr size_t kMostKeptBytes = size_t{64} << 20;

void multiply(ReduceFunction product, const void* first, const void* second, void* to, size_t elements) {
  const void* const sources[] = {first, second};
  product({.destinations = &to, .destination_count = 1, .sources = sources, .source_count = 2, .elements = elements});
}

template <class T>
Scalar scalar_of(DataType type, T value) {
  Scalar scalar;
  scalar.type = type;
  std::memcpy(scalar.value.data(), &value, sizeof(value));
  return scalar;
}

template <class Number>
[[noreturn]] void refuse(DataType type, Number number, const char* why) {
  fail(ErrorCode::kInvalidArgument, "the scalar ", number, " is not a ", name(type), ": ", why);
}

template <class T, class Number>
Scalar integer_scalar(DataType type, Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(number)) refuse(type, number, "it is not a number");
    if (std::trunc(number) != number) refuse(type, number, "it is not whole");
    // The bounds are exact: powers of two, or zero.
    const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
    if (number >= above || number < (std::is_signed_v<T> ? -above : 0)) refuse(type, number, "it does not fit");
  } else {
    if (!std::in_range<T>(number)) refuse(type, number, "it does not fit");
  }
  return scalar_of(type, static_cast<T>(number));
}

// Rounds so that another rounding, to fewer bits, gives the result of a single rounding: an inexact value is rounded
// toward zero with its last bit set.
float round_to_odd(double number) {
  const auto nearest = static_cast<float>(number);
  if (std::isnan(number) || std::isinf(nearest) || static_cast<double>(nearest) == number) return nearest;
  const bool beyond = std::abs(static_cast<double>(nearest)) > std::abs(number);
  const uint32_t bits = std::bit_cast<uint32_t>(nearest) - (beyond ? 1 : 0);
  return std::bit_cast<float>(bits | 1);
}

float largest_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 65504.0f;
    case DataType::kBfloat16:
      return std::bit_cast<float>(0x7f7f0000u);
    case DataType::kFloat8E4M3:
      return 448.0f;
    default:
      return 57344.0f;
  }
}

Scalar narrow_scalar(DataType type, double number) {
  const bool infinity = std::isinf(number) && type != DataType::kFloat8E4M3;  // this type has no infinity
  if (!infinity && std::abs(number) > largest_of(type)) refuse(type, number, "it is too large");
  const float wide = round_to_odd(number);
  Scalar scalar = scalar_of(type, uint64_t{0});
  const void* source = &wide;
  void* to = scalar.value.data();
  const uint8_t is_wide = 1;
  find_reduce(type, ReduceOp::kSum)({.destinations = &to,
                                     .destination_count = 1,
                                     .sources = &source,
                                     .source_count = 1,
                                     .source_is_wide = &is_wide,
                                     .elements = 1});
  return scalar;
}

Scalar float_scalar(DataType type, double number) {
  if (type == DataType::kFloat64) return scalar_of(type, number);
  if (type == DataType::kFloat32) {
    const auto rounded = static_cast<float>(number);
    if (std::isinf(rounded) && !std::isinf(number)) refuse(type, number, "it is too large");
    return scalar_of(type, rounded);
  }
  return narrow_scalar(type, number);
}

// Converts for types narrower than float64, so that a later rounding gives the result of rounding the number itself.
// The low bits of a whole number that float64 may not hold become one bit that tells whether any was set.
template <class Number>
double wide_enough(Number number) {
  if constexpr (std::is_integral_v<Number>) {
    constexpr Number kLow = (Number{1} << 11) - 1;
    if (std::abs(static_cast<double>(number)) >= 0x1p53 && (number & kLow) != 0) {
      return static_cast<double>((number & ~kLow) | (kLow + 1));
    }
  }
  return static_cast<double>(number);
}

template <class Number>
Scalar any_scalar(DataType type, Number number) {
  switch (type) {
    case DataType::kInt8:
      return integer_scalar<int8_t>(type, number);
    case DataType::kUint8:
      return integer_scalar<uint8_t>(type, number);
    case DataType::kInt16:
      return integer_scalar<int16_t>(type, number);
    case DataType::kUint16:
      return integer_scalar<uint16_t>(type, number);
    case DataType::kInt32:
      return integer_scalar<int32_t>(type, number);
    case DataType::kUint32:
      return integer_scalar<uint32_t>(type, number);
    case DataType::kInt64:
      return integer_scalar<int64_t>(type, number);
    case DataType::kUint64:
      return integer_scalar<uint64_t>(type, number);
    default:
      return float_scalar(type, type == DataType::kFloat64 ? static_cast<double>(number) : wide_enough(number));
  }
}

}  // namespace

Scalar make_scalar(DataType type, double number) { return any_scalar(type, number); }
Scalar make_scalar(DataType type, int64_t number) { return any_scalar(type, number); }
Scalar make_scalar(DataType type, uint64_t number) { return any_scalar(type, number); }

void scale(const void* input, void* output, size_t elements, const Scalar& scalar) {
  const size_t bytes = size_of(scalar.type);
  const size_t at_once = std::min(elements, kScaledBytes / bytes);
  std::array<std::byte, kScaledBytes> scalars;
  std::memcpy(scalars.data(), scalar.value.data(), bytes);
  for (size_t made = 1; made < at_once; made *= 2) {
    std::memcpy(scalars.data() + made * bytes, scalars.data(), std::min(made, at_once - made) * bytes);
  }
  const ReduceFunction product = find_reduce(scalar.type, ReduceOp::kProduct);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  for (size_t done = 0; done < elements; done += at_once) {
    multiply(product, from + done * bytes, scalars.data(), to + done * bytes, std::min(at_once, elements - done));
  }
}

const void* Products::make(const Call& call, int rank, size_t bytes, const Scalar& scalar, const void* input,
                           void* output) {
  if (bytes == 0) return input;
  const bool is_in_output = output != nullptr && holds_products(call.collective, call.root, rank);
  void* const to = is_in_output ? output : memory_of(bytes);
  scale(input, to, bytes / size_of(call.type), scalar);
  return to;
}

void Products::release() {
  if (capacity_ <= kMostKeptBytes) return;
  memory_.reset();
  capacity_ = 0;
}

std::byte* Products::memory_of(size_t bytes) {
  if (bytes <= capacity_) return memory_.get();
  memory_.reset();
  capacity_ = 0;
  memory_.reset(new (std::nothrow) std::byte[bytes]);
  if (!memory_) {
    fail(ErrorCode::kResources, "the system has no ", counted(bytes, "byte"),
         " for the products of a pre-multiplied sum, whose input must stay as it is; use less memory, or "
         "multiply in place and take the plain sum");
  }
  capacity_ = bytes;
  return memory_.get();
}

}  // namespace plait
