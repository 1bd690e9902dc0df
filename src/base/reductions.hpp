// The table of reductions. Names, refusals, kernels, peers' handles and test inputs follow from a reduction's row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace plait {

// Row: X(value of ReduceOp, constant in plait.h, how two elements become one (base/combining.hpp), facts, as below).
// clang-format off
#define PLAIT_REDUCTIONS(X)                                                                           \
  X(kSum, plaitSum, Add,                                                                              \
    .number = 0, .name = "sum", .long_name = "sum", .alias = "add",                                   \
    .mpi = {"ompi_mpi_op_sum", 0x58000003}, .inputs = ExactInputs::kAddends,                          \
    .of_truth_values = OfTruthValues::kOr, .of_complex_numbers = OfComplexNumbers::kByParts)          \
  X(kProduct, plaitProd, Multiply,                                                                    \
    .number = 1, .name = "prod", .long_name = "product", .alias = "multiply",                         \
    .mpi = {"ompi_mpi_op_prod", 0x58000004}, .inputs = ExactInputs::kFactors,                         \
    .of_truth_values = OfTruthValues::kAnd, .of_complex_numbers = OfComplexNumbers::kAnotherProduct)  \
  X(kMax, plaitMax, Extremum,                                                                         \
    .number = 2, .name = "max", .long_name = "maximum",                                               \
    .mpi = {"ompi_mpi_op_max", 0x58000001}, .inputs = ExactInputs::kSmall,                            \
    .of_truth_values = OfTruthValues::kOr, .of_complex_numbers = OfComplexNumbers::kNoOrder)          \
  X(kMin, plaitMin, Extremum,                                                                         \
    .number = 3, .name = "min", .long_name = "minimum",                                               \
    .mpi = {"ompi_mpi_op_min", 0x58000002}, .inputs = ExactInputs::kSmall,                            \
    .of_truth_values = OfTruthValues::kAnd, .of_complex_numbers = OfComplexNumbers::kNoOrder)         \
  X(kAverage, plaitAvg, Add,                                                                          \
    .number = 4, .name = "avg", .long_name = "average", .alias = "mean", .divides = true,             \
    .inputs = ExactInputs::kLevel,                                                                    \
    .of_truth_values = OfTruthValues::kNothing, .of_complex_numbers = OfComplexNumbers::kByParts)
// clang-format on

#define PLAIT_VALUE(value, ...) value,
enum class ReduceOp : uint8_t { PLAIT_REDUCTIONS(PLAIT_VALUE) };
#undef PLAIT_VALUE
#define PLAIT_ONE_MORE(...) +1
inline constexpr int kReduceOpCount = PLAIT_REDUCTIONS(PLAIT_ONE_MORE);
#undef PLAIT_ONE_MORE

// The handle of MPI's operation: the address of an object of Open MPI, a number in MPICH and its relatives.
struct MpiOperation {
  const char* open_mpi = nullptr;
  uint32_t mpich = 0;
};

enum class ReducedTypes : uint8_t { kAll, kIntegers };

// Contributions whose reduction is exact in every type, over up to 64 ranks (bench/exact_input.cpp).
enum class ExactInputs : uint8_t {
  kSmall,    // whole numbers from 0 to 8, where results are small, too
  kAddends,  // with a small sum
  kFactors,  // with a small product
  kLevel,    // with a whole number as their average
};

// Whether the reduction has a meaning for elements that only Python's callers have: truth values, which are bytes where
// any but 0 is true, and complex numbers, which are pairs of floats.
enum class OfTruthValues : uint8_t { kNothing, kOr, kAnd };
enum class OfComplexNumbers : uint8_t { kByParts, kNoOrder, kAnotherProduct };

struct ReductionFacts {
  int number;                   // in plait.h; less than kFirstOwnReduction: in NCCL, too
  const char* name;             // as nccl-tests prints it
  const char* long_name;        // in sentences; numpy's where it has one. Understood as the name is
  const char* alias = nullptr;  // such as that of numpy's function
  ReducedTypes types = ReducedTypes::kAll;
  bool divides = false;   // what was combined, by the number of ranks, before it is rounded
  MpiOperation mpi = {};  // empty where MPI has none
  ExactInputs inputs = ExactInputs::kSmall;
  OfTruthValues of_truth_values = OfTruthValues::kNothing;
  OfComplexNumbers of_complex_numbers = OfComplexNumbers::kByParts;
};

// Numbers from here on are Plait's own, past those that NCCL may come to use.
inline constexpr int kFirstOwnReduction = 64;

#define PLAIT_FACTS(value, constant, Combining, ...) {__VA_ARGS__},
inline constexpr ReductionFacts kReductions[] = {PLAIT_REDUCTIONS(PLAIT_FACTS)};
#undef PLAIT_FACTS
constexpr const ReductionFacts& facts_of(ReduceOp op) { return kReductions[static_cast<int>(op)]; }

constexpr bool is_nccls(const ReductionFacts& reduction) { return reduction.number < kFirstOwnReduction; }

inline const char* name(ReduceOp op) { return facts_of(op).name; }
std::span<const std::string_view> reduce_op_names();  // of all reductions, in their order
// Accepts names that NCCL, MPI and numpy have, in any case: "sum", "ncclProd", "MPI_MAX", "maximum", "mean", …
std::optional<ReduceOp> parse_reduce_op(std::string_view text);
// The reduction with this number in plait.h.
constexpr std::optional<ReduceOp> reduce_op_of_number(int number) {
  for (int i = 0; i < kReduceOpCount; ++i) {
    if (kReductions[i].number == number) return static_cast<ReduceOp>(i);
  }
  return std::nullopt;
}

constexpr bool is_for_floats(ReduceOp op) { return facts_of(op).types == ReducedTypes::kAll; }
constexpr bool has(DataType type, ReduceOp op) { return is_integer(type) || is_for_floats(op); }
std::span<const ReduceOp> reductions_of(DataType type);
std::span<const ReduceOp> all_reductions();
// For errors: "only integers have a bitwise_or, and float32 is none".
std::string why_not(DataType type, ReduceOp op);

// The divisor of the combined contributions of so many ranks; 0 if they are not divided.
constexpr int divisor_of(ReduceOp op, int ranks) { return facts_of(op).divides ? ranks : 0; }

}  // namespace plait
