// Element types, shared by every part that handles data. Terms and numbering follow NCCL's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plait {

enum class DataType : uint8_t {
  kInt8,
  kUint8,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBfloat16,
  kFloat8E4M3,  // OCP FP8: 1-4-3, no infinity, one NaN pattern
  kFloat8E5M2,  // OCP FP8: 1-5-2, IEEE-like
  kInt16,
  kUint16,
};
inline constexpr int kDataTypeCount = 14;

struct TypeFacts {
  const char* name;  // numpy's or ml_dtypes'
  size_t size;       // bytes of one element
  bool is_integer;
  bool accumulates_in_float32;  // and is rounded once, at the end: 8- and 16-bit floating types
};

inline constexpr std::array<TypeFacts, kDataTypeCount> kTypes = {{
    {"int8", 1, true, false},
    {"uint8", 1, true, false},
    {"int32", 4, true, false},
    {"uint32", 4, true, false},
    {"int64", 8, true, false},
    {"uint64", 8, true, false},
    {"float16", 2, false, true},
    {"float32", 4, false, false},
    {"float64", 8, false, false},
    {"bfloat16", 2, false, true},
    {"float8_e4m3fn", 1, false, true},
    {"float8_e5m2", 1, false, true},
    {"int16", 2, true, false},
    {"uint16", 2, true, false},
}};
constexpr const TypeFacts& facts_of(DataType type) { return kTypes[static_cast<size_t>(type)]; }

// Bytes of one element.
constexpr size_t size_of(DataType type) { return facts_of(type).size; }
constexpr bool is_integer(DataType type) { return facts_of(type).is_integer; }
constexpr bool accumulates_in_float32(DataType type) { return facts_of(type).accumulates_in_float32; }
// Bytes of one element of an unfinished reduction.
constexpr size_t accumulator_size_of(DataType type) {
  return accumulates_in_float32(type) ? sizeof(float) : size_of(type);
}

constexpr const char* name(DataType type) { return facts_of(type).name; }
std::span<const std::string_view> type_names();  // of all types, in their order
// Accepts the names above and those that NCCL, MPI, numpy and PyTorch have, in any case and with "-", "_" or nothing
// between words: "float", "half", "ncclBfloat16", "MPI_DOUBLE", "fp8_e4m3", …
std::optional<DataType> parse_data_type(std::string_view text);

}  // namespace plait
