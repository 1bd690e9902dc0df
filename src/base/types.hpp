// Element types, shared by every part that handles data. Terms and numbering follow NCCL's.
#pragma once

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

// Bytes of one element.
size_t size_of(DataType type);
bool is_integer(DataType type);
// 8- and 16-bit floating types add up in float32 and are rounded once, at the end.
bool accumulates_in_float32(DataType type);
// Bytes of one element of an unfinished reduction: 4 where the type accumulates in float32, else its own size.
size_t accumulator_size_of(DataType type);

// "float32", "bfloat16", "float8_e4m3fn", … (numpy's and ml_dtypes' names).
const char* name(DataType type);
std::span<const std::string_view> type_names();  // of all types, in their order
// Accepts the names above and those that NCCL, MPI, numpy and PyTorch have, in any case and with "-", "_" or nothing
// between words: "float", "half", "ncclBfloat16", "MPI_DOUBLE", "fp8_e4m3", …
std::optional<DataType> parse_data_type(std::string_view text);

}  // namespace plait
