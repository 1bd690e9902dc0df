#include "base/types.hpp"

#include <array>
#include <utility>

namespace plait {
namespace {

struct TypeFacts {
  const char* name;
  size_t size;
  bool accumulates_in_float32;
};

constexpr std::array<TypeFacts, kDataTypeCount> kTypes = {{
    {"int8", 1, false},
    {"uint8", 1, false},
    {"int32", 4, false},
    {"uint32", 4, false},
    {"int64", 8, false},
    {"uint64", 8, false},
    {"float16", 2, true},
    {"float32", 4, false},
    {"float64", 8, false},
    {"bfloat16", 2, true},
    {"float8_e4m3fn", 1, true},
    {"float8_e5m2", 1, true},
    {"int16", 2, false},
    {"uint16", 2, false},
}};

constexpr std::array kOps = {"sum", "prod", "max", "min", "avg"};
static_assert(kOps.size() == kReduceOpCount);

constexpr std::pair<std::string_view, DataType> kTypeAliases[] = {
    {"float", DataType::kFloat32},          {"f32", DataType::kFloat32},
    {"half", DataType::kFloat16},           {"f16", DataType::kFloat16},
    {"double", DataType::kFloat64},         {"f64", DataType::kFloat64},
    {"bf16", DataType::kBfloat16},          {"int", DataType::kInt32},
    {"fp8_e4m3", DataType::kFloat8E4M3},    {"f8e4m3", DataType::kFloat8E4M3},
    {"f8e5m2", DataType::kFloat8E5M2},      {"fp8_e5m2", DataType::kFloat8E5M2},
    {"float8_e4m3", DataType::kFloat8E4M3},
};

constexpr std::pair<std::string_view, ReduceOp> kOpAliases[] = {
    {"product", ReduceOp::kProduct}, {"average", ReduceOp::kAverage}, {"mean", ReduceOp::kAverage},
    {"maximum", ReduceOp::kMax},     {"minimum", ReduceOp::kMin},
};

}  // namespace

size_t size_of(DataType type) { return kTypes[static_cast<size_t>(type)].size; }
bool accumulates_in_float32(DataType type) { return kTypes[static_cast<size_t>(type)].accumulates_in_float32; }
size_t accumulator_size_of(DataType type) { return accumulates_in_float32(type) ? sizeof(float) : size_of(type); }
const char* name(DataType type) { return kTypes[static_cast<size_t>(type)].name; }
const char* name(ReduceOp op) { return kOps[static_cast<size_t>(op)]; }

std::optional<DataType> parse_data_type(std::string_view text) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (text == kTypes[i].name) return static_cast<DataType>(i);
  }
  for (const auto& [alias, type] : kTypeAliases) {
    if (text == alias) return type;
  }
  return std::nullopt;
}

std::optional<ReduceOp> parse_reduce_op(std::string_view text) {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (text == kOps[i]) return static_cast<ReduceOp>(i);
  }
  for (const auto& [alias, op] : kOpAliases) {
    if (text == alias) return op;
  }
  return std::nullopt;
}

}  // namespace plait
