// Operations as Python names them: texts, and pre-multiplied sums.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/reductions.hpp"
#include "bindings/element_type.hpp"
#include "runtime/premul_scalar.hpp"

namespace plait::python {

namespace nb = nanobind;

// plait.premul_sum(factor): a number, of whatever type the arrays turn out to have.
struct PremulSum {
  std::variant<int64_t, uint64_t, double> factor;
};

// The part of an operation that a call takes.
struct Operation {
  ReduceOp op = ReduceOp::kSum;
  std::optional<Scalar> factor;

  const Scalar* factor_or_null() const { return factor ? &*factor : nullptr; }
};

// Reads a text or a PremulSum, for elements of this type. Throws kInvalidArgument, also if such elements lack it.
Operation operation_of(nb::handle op, const ElementType& type);

// Finds a reduction by its name or an alias. Throws kInvalidArgument, which lists the names.
ReduceOp reduce_op_of(const std::string& text);
// The reduction that the core performs on elements of this type. As in numpy and torch.distributed, the sum and the
// maximum of truth values are "or", the product and the minimum "and". Complex numbers have sums and averages. Throws
// kInvalidArgument if elements of this type lack it.
ReduceOp reduce_op_for(ReduceOp op, const ElementType& type);

void bind_operation(nb::module_& module);

}  // namespace plait::python
