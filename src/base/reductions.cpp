// Names of reductions, and the types that have them.
#include "base/reductions.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/names.hpp"

namespace plait {
namespace {

constexpr auto kReductionNames = [] {
  std::array<std::string_view, kReduceOpCount> names;
  std::ranges::transform(kReductions, names.begin(), &ReductionFacts::name);
  return names;
}();

constexpr std::array kReductionsOfIntegers = {
#define PLAIT_VALUE(value, ...) ReduceOp::value,
    PLAIT_REDUCTIONS(PLAIT_VALUE)
#undef PLAIT_VALUE
};

constexpr auto kReductionsOfFloats = [] {
  std::array<ReduceOp, std::ranges::count_if(kReductionsOfIntegers, is_for_floats)> ops{};
  std::ranges::copy_if(kReductionsOfIntegers, ops.begin(), is_for_floats);
  return ops;
}();

bool is_called(const ReductionFacts& reduction, std::string_view text) {
  return same_name(text, reduction.name) || same_name(text, reduction.long_name) ||
         (reduction.alias != nullptr && same_name(text, reduction.alias));
}

}  // namespace

std::span<const std::string_view> reduce_op_names() { return kReductionNames; }

std::optional<ReduceOp> parse_reduce_op(std::string_view text) {
  for (const ReduceOp op : kReductionsOfIntegers) {
    if (is_called(facts_of(op), text)) return op;
  }
  return std::nullopt;
}

std::span<const ReduceOp> all_reductions() { return kReductionsOfIntegers; }

std::span<const ReduceOp> reductions_of(DataType type) {
  return is_integer(type) ? std::span<const ReduceOp>(kReductionsOfIntegers) : kReductionsOfFloats;
}

std::string why_not(DataType type, ReduceOp op) {
  return join("only integers have a ", facts_of(op).long_name, ", and ", name(type), " is none");
}

}  // namespace plait
