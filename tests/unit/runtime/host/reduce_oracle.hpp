// The expected result of a reduce, computed element by element in the most obvious way, without any code of
// src/runtime/host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/by_combining.hpp"
#include "base/reductions.hpp"

namespace plait::oracle {

// ---- Narrow floating types: a table of the values of all codes, and a search for the nearest.

struct Format {
  int bits, mantissa_bits, bias;
  uint32_t first_special;  // the least positive code that is not a finite number
  bool has_infinity, saturates;

  explicit Format(DataType type) {
    switch (type) {
      case DataType::kFloat16:
        set(16, 10, 15, 0x7c00, true, false);
        break;
      case DataType::kBfloat16:
        set(16, 7, 127, 0x7f80, true, false);
        break;
      case DataType::kFloat8E4M3:
        set(8, 3, 7, 0x7f, false, true);
        break;
      default:
        set(8, 2, 15, 0x7c, true, true);
        break;
    }
    for (uint32_t code = 0; code <= first_special; ++code) values.push_back(value_as_if_finite(code));
  }

  uint32_t sign_bit() const { return 1u << (bits - 1); }
  uint32_t nan() const { return sign_bit() - 1; }

  float decode(uint32_t code) const {
    const uint32_t magnitude = code & (sign_bit() - 1);
    const float sign = (code & sign_bit()) != 0 ? -1.0f : 1.0f;
    if (magnitude < first_special) return sign * static_cast<float>(values[magnitude]);
    if (magnitude == first_special && has_infinity) return sign * std::numeric_limits<float>::infinity();
    return std::numeric_limits<float>::quiet_NaN();
  }

  uint32_t encode(float number) const {
    if (std::isnan(number)) return nan();
    const uint32_t sign = std::signbit(number) ? sign_bit() : 0;
    if (std::isinf(number) && has_infinity) return sign | first_special;
    const double x = std::abs(static_cast<double>(number));
    const auto above = std::lower_bound(values.begin(), values.end(), x);  // the least value that is not below x
    uint32_t code = static_cast<uint32_t>(above - values.begin());
    if (above == values.end()) {
      code = first_special;
    } else if (*above != x) {
      const double down = x - values[code - 1];
      const double up = values[code] - x;
      if (down < up || (down == up && (code - 1) % 2 == 0)) --code;
    }
    if (code == first_special && saturates) --code;  // a finite number stays finite
    return sign | code;
  }

  std::vector<double> values;  // ascending; the last is the value of the first special code if it were a number

 private:
  void set(int total, int mantissa, int exponent_bias, uint32_t special, bool infinity, bool saturation) {
    bits = total;
    mantissa_bits = mantissa;
    bias = exponent_bias;
    first_special = special;
    has_infinity = infinity;
    saturates = saturation;
  }
  double value_as_if_finite(uint32_t code) const {
    const int exponent = static_cast<int>(code >> mantissa_bits);
    const int mantissa = static_cast<int>(code & ((1u << mantissa_bits) - 1));
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
};

// ---- Arithmetic.

template <class T>
T the_nan() {
  std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t> bits = 0;
  bits = ~bits >> 1;
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Not what the table of reductions says, but for those that are not named here.
template <class T>
T combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        return static_cast<T>(x + y);
      case ReduceOp::kProduct:
        return static_cast<T>(x * y);
      case ReduceOp::kMin:
        return std::min(a, b);
      case ReduceOp::kMax:
        return std::max(a, b);
      default:
        return combine_numbers(op, a, b);
    }
  } else {
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        return a + b;
      case ReduceOp::kProduct:
        return a * b;
      case ReduceOp::kMin:
        if (std::isnan(a) || std::isnan(b)) return the_nan<T>();
        if (a == b) return std::signbit(a) ? a : b;
        return a < b ? a : b;
      case ReduceOp::kMax:
        if (std::isnan(a) || std::isnan(b)) return the_nan<T>();
        if (a == b) return std::signbit(a) ? b : a;
        return a > b ? a : b;
      default:
        return combine_numbers(op, a, b);
    }
  }
}

template <class T>
T divide(T value, int divisor) {
  if (divisor == 0) return value;
  if constexpr (std::is_same_v<T, uint64_t>) {
    return value / static_cast<uint64_t>(divisor);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(value) / divisor);
  } else {
    return value / static_cast<T>(divisor);
  }
}

// ---- Reduces over bytes.

using Bytes = std::vector<unsigned char>;

template <class T>
T element(const Bytes& bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void append(Bytes& bytes, T value) {
  const auto* begin = reinterpret_cast<const unsigned char*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof(T));
}

struct Problem {
  DataType type;
  ReduceOp op;
  size_t elements;
  std::vector<Bytes> sources = {};
  std::vector<uint8_t> source_is_wide = {};  // one for each source
  bool result_is_wide = false;
  int divisor = 0;
};

template <class T>
Bytes reduce_native(const Problem& problem) {
  Bytes result;
  if (problem.sources.size() == 1 && problem.divisor == 0) return problem.sources[0];
  for (size_t i = 0; i < problem.elements; ++i) {
    T total = element<T>(problem.sources[0], i);
    for (size_t s = 1; s < problem.sources.size(); ++s) {
      total = combine<T>(problem.op, total, element<T>(problem.sources[s], i));
    }
    total = divide<T>(total, problem.divisor);
    if (total != total) total = the_nan<T>();
    append(result, total);
  }
  return result;
}

inline Bytes reduce_narrow(const Problem& problem, const Format& format) {
  const auto read = [&](size_t s, size_t i) {
    if (problem.source_is_wide[s] != 0) return element<float>(problem.sources[s], i);
    return format.decode(format.bits == 16 ? element<uint16_t>(problem.sources[s], i)
                                           : element<uint8_t>(problem.sources[s], i));
  };
  Bytes result;
  const bool same_form = (problem.source_is_wide[0] != 0) == problem.result_is_wide;
  if (problem.sources.size() == 1 && problem.divisor == 0 && same_form) return problem.sources[0];
  for (size_t i = 0; i < problem.elements; ++i) {
    float total = read(0, i);
    for (size_t s = 1; s < problem.sources.size(); ++s) total = combine<float>(problem.op, total, read(s, i));
    total = divide<float>(total, problem.divisor);
    if (problem.result_is_wide) {
      append(result, std::isnan(total) ? the_nan<float>() : total);
    } else if (format.bits == 16) {
      append(result, static_cast<uint16_t>(format.encode(total)));
    } else {
      append(result, static_cast<uint8_t>(format.encode(total)));
    }
  }
  return result;
}

inline Bytes reduce(const Problem& problem) {
  static const Format float16(DataType::kFloat16), bfloat16(DataType::kBfloat16);
  static const Format e4m3(DataType::kFloat8E4M3), e5m2(DataType::kFloat8E5M2);
  switch (problem.type) {
    case DataType::kInt8:
      return reduce_native<int8_t>(problem);
    case DataType::kUint8:
      return reduce_native<uint8_t>(problem);
    case DataType::kInt16:
      return reduce_native<int16_t>(problem);
    case DataType::kUint16:
      return reduce_native<uint16_t>(problem);
    case DataType::kInt32:
      return reduce_native<int32_t>(problem);
    case DataType::kUint32:
      return reduce_native<uint32_t>(problem);
    case DataType::kInt64:
      return reduce_native<int64_t>(problem);
    case DataType::kUint64:
      return reduce_native<uint64_t>(problem);
    case DataType::kFloat32:
      return reduce_native<float>(problem);
    case DataType::kFloat64:
      return reduce_native<double>(problem);
    case DataType::kFloat16:
      return reduce_narrow(problem, float16);
    case DataType::kBfloat16:
      return reduce_narrow(problem, bfloat16);
    case DataType::kFloat8E4M3:
      return reduce_narrow(problem, e4m3);
    case DataType::kFloat8E5M2:
      return reduce_narrow(problem, e5m2);
  }
  return {};
}

}  // namespace plait::oracle
