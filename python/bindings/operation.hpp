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

// What a call takes of an operation.
struct Operation {
  ReduceOp op = ReduceOp::kSum;
  std::optional<Scalar> factor;

  const Scalar* factor_or_null() const { return factor ? &*factor : nullptr; }
};

// A text or a PremulSum, for elements of this type. Throws kInvalidArgument, also for what such elements do not have.
Operation operation_of(nb::handle op, const ElementType& type);

// By its name or an alias. Throws kInvalidArgument with the names that there are.
ReduceOp reduce_op_of(const std::string& text);
// What the core performs on elements of this type. As in numpy and torch.distributed, of truth values the sum and the
// maximum are "or", the product and the minimum "and"; complex numbers have sums and averages. Throws kInvalidArgument
// where elements of this type do not have it.
ReduceOp reduce_op_for(ReduceOp op, const ElementType& type);

void bind_operation(nb::module_& module);

}  // namespace plait::python
