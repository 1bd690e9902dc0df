#include "base/types.hpp"

#include <array>
#include <utility>

#include "base/names.hpp"

namespace plait {
namespace {

constexpr auto kTypeNames = [] {
  std::array<std::string_view, kDataTypeCount> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kTypes[i].name;
  return names;
}();

// Further names that NCCL, MPI, C, numpy and PyTorch have, as simplified() gives them. Names that mean different things
// to them, such as "byte" and "i8", are left out.
constexpr std::pair<std::string_view, DataType> kTypeAliases[] = {
    {"char", DataType::kInt8},           {"signedchar", DataType::kInt8},
    {"uchar", DataType::kUint8},         {"ubyte", DataType::kUint8},
    {"unsignedchar", DataType::kUint8},  {"short", DataType::kInt16},
    {"ushort", DataType::kUint16},       {"unsignedshort", DataType::kUint16},
    {"int", DataType::kInt32},           {"intc", DataType::kInt32},
    {"uint", DataType::kUint32},         {"uintc", DataType::kUint32},
    {"unsigned", DataType::kUint32},     {"long", DataType::kInt64},
    {"longlong", DataType::kInt64},      {"longlongint", DataType::kInt64},
    {"ulong", DataType::kUint64},        {"ulonglong", DataType::kUint64},
    {"unsignedlong", DataType::kUint64}, {"unsignedlonglong", DataType::kUint64},
    {"half", DataType::kFloat16},        {"fp16", DataType::kFloat16},
    {"f16", DataType::kFloat16},         {"float", DataType::kFloat32},
    {"single", DataType::kFloat32},      {"fp32", DataType::kFloat32},
    {"f32", DataType::kFloat32},         {"double", DataType::kFloat64},
    {"fp64", DataType::kFloat64},        {"f64", DataType::kFloat64},
    {"bf16", DataType::kBfloat16},       {"float8e4m3", DataType::kFloat8E4M3},
    {"fp8e4m3", DataType::kFloat8E4M3},  {"f8e4m3", DataType::kFloat8E4M3},
    {"e4m3", DataType::kFloat8E4M3},     {"fp8e4m3fn", DataType::kFloat8E4M3},
    {"f8e4m3fn", DataType::kFloat8E4M3}, {"e4m3fn", DataType::kFloat8E4M3},
    {"fp8e5m2", DataType::kFloat8E5M2},  {"f8e5m2", DataType::kFloat8E5M2},
    {"e5m2", DataType::kFloat8E5M2},
};

}  // namespace

std::span<const std::string_view> type_names() { return kTypeNames; }

std::optional<DataType> parse_data_type(std::string_view text) {
  if (text.ends_with("_t") || text.ends_with("_T")) text.remove_suffix(2);  // of C and MPI: int32_t
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (same_name(text, kTypes[i].name)) return static_cast<DataType>(i);
  }
  const std::string simple = simplified(text);
  for (const auto& [alias, type] : kTypeAliases) {
    if (simple == alias) return type;
  }
  return std::nullopt;
}

}  // namespace plait
