#include "bindings/operation.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/error.hpp"
#include "base/names.hpp"
#include "runtime/host/scale.hpp"

namespace plait::python {
namespace {

std::string class_of(nb::handle object) { return nb::cast<std::string>(object.type().attr("__name__")); }

// Whole numbers stay whole, since floats do not hold all of them.
PremulSum premul_sum(nb::handle factor) {
  const auto whole = nb::steal(PyNumber_Index(factor.ptr()));
  if (!whole.is_valid()) PyErr_Clear();
  const nb::handle number = whole.is_valid() ? nb::handle(whole) : factor;
  if (int64_t value = 0; nb::try_cast(number, value, false)) return {value};
  if (uint64_t value = 0; nb::try_cast(number, value, false)) return {value};
  const double value = PyFloat_AsDouble(number.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    const bool too_large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
    PyErr_Clear();
    if (too_large) fail(ErrorCode::kInvalidArgument, "premul_sum: the factor is larger than any element");
    fail(ErrorCode::kInvalidArgument, "premul_sum: the factor must be a number, and a ", class_of(factor), " is none");
  }
  return {value};
}

std::vector<const char*> names_of_reductions(nb::handle dtype) {
  std::vector<const char*> names;
  for (const ReduceOp op : dtype.is_none() ? all_reductions() : reductions_of(data_type_of(dtype))) {
    names.push_back(name(op));
  }
  return names;
}

// "sum, prod, max, …"
std::string list_of_reductions() {
  std::string names;
  for (const std::string_view name : reduce_op_names()) names += join(names.empty() ? "" : ", ", name);
  return names;
}

std::string text_of(const PremulSum& sum) {
  return std::visit([](auto factor) { return nb::cast<std::string>(nb::repr(nb::cast(factor))); }, sum.factor);
}

// Any byte but 0 is true, so that a sum may overflow to false, and a product as well.
ReduceOp of_truth_values(ReduceOp op) {
  switch (facts_of(op).of_truth_values) {
    case OfTruthValues::kOr:
      return ReduceOp::kMax;
    case OfTruthValues::kAnd:
      return ReduceOp::kMin;
    case OfTruthValues::kNothing:
      break;
  }
  fail(ErrorCode::kInvalidArgument, "op '", name(op), "': truth values have no ", facts_of(op).long_name,
       "; pass 'sum' or 'max' for or, 'prod' or 'min' for and, or numbers, such as numpy.asarray(array, 'float32')");
}

ReduceOp of_complex_numbers(ReduceOp op) {
  switch (facts_of(op).of_complex_numbers) {
    case OfComplexNumbers::kByParts:
      return op;
    case OfComplexNumbers::kNoOrder:
      fail(ErrorCode::kInvalidArgument, "op '", name(op), "': complex numbers have no order; pass 'sum' or 'avg', or ",
           "numbers that have one, such as abs(array)");
    case OfComplexNumbers::kAnotherProduct:
      fail(ErrorCode::kInvalidArgument, "op '", name(op), "': complex numbers are reduced as pairs of floats, and ",
           "their product is not that of the pairs; pass 'sum' or 'avg', or all_gather them and multiply on each rank");
  }
  fail(ErrorCode::kInternal, "no such meaning");
}

// A hint for a text that names no operation: for a logical one of numpy or MPI, the operation that does the same with
// arrays of bool, and with no others; else the nearest name.
std::string hint_for(const std::string& text) {
  const std::string simple = simplified(text);
  const auto is_one_of = [&](std::initializer_list<const char*> names) {
    return std::ranges::any_of(names, [&](const char* name) { return simple == name; });
  };
  if (is_one_of({"logicalor", "lor", "or", "any"})) return "; of bool arrays, 'max' is or";
  if (is_one_of({"logicaland", "land", "and", "all"})) return "; of bool arrays, 'min' is and";
  return did_you_mean(text, reduce_op_names());
}

}  // namespace

ReduceOp reduce_op_of(const std::string& text) {
  const auto op = parse_reduce_op(text);
  if (!op) fail(ErrorCode::kInvalidArgument, "op '", text, "' is none of: ", list_of_reductions(), hint_for(text));
  return *op;
}

ReduceOp reduce_op_for(ReduceOp op, const ElementType& type) {
  if (type.meaning == ElementType::Meaning::kTruth) return of_truth_values(op);
  if (!has(type.type, op)) fail(ErrorCode::kInvalidArgument, "op '", name(op), "': ", why_not(type.type, op));
  return type.meaning == ElementType::Meaning::kComplex ? of_complex_numbers(op) : op;
}

Operation operation_of(nb::handle op, const ElementType& type) {
  if (nb::isinstance<nb::str>(op)) {
    const char* text = PyUnicode_AsUTF8AndSize(op.ptr(), nullptr);
    if (text != nullptr) return {reduce_op_for(reduce_op_of(text), type), std::nullopt};
    PyErr_Clear();  // a text that no encoding has
    return {reduce_op_of(nb::cast<std::string>(nb::repr(op))), std::nullopt};
  }
  const PremulSum* sum = nullptr;
  if (!nb::try_cast(op, sum) || sum == nullptr) {
    fail(ErrorCode::kInvalidArgument, "op: a ", class_of(op), " is no operation; pass one of ", list_of_reductions(),
         ", or plait.premul_sum(factor)");
  }
  if (type.meaning == ElementType::Meaning::kTruth) {
    fail(ErrorCode::kInvalidArgument, "op: truth values are not multiplied; pass numbers, such as ",
         "numpy.asarray(array, 'float32')");
  }
  return {ReduceOp::kSum, std::visit([&](auto factor) { return make_scalar(type.type, factor); }, sum->factor)};
}

void bind_operation(nb::module_& module) {
  nb::class_<PremulSum>(module, "PremulSum", "What premul_sum() gives.").def("__repr__", [](const PremulSum& sum) {
    return "plait.premul_sum(" + text_of(sum) + ")";
  });
  module.def("reduce_op_names", &names_of_reductions, nb::arg("dtype").none() = nb::none(),
             "Of all reductions, or of those that a type of the core has.");
  module.def(
      "premul_sum", &premul_sum, nb::arg("factor").none(),
      "A pre-multiplied sum, for all_reduce, reduce and reduce_scatter: each rank's array times a factor of that rank, "
      "a number, then the sum. The factor becomes an element of the array's type. Products are rounded once; those of "
      "integers wrap. Raises InvalidArgument for what is no number; calls raise it where the type is of integers and "
      "the factor is not whole or does not fit.");
}

}  // namespace plait::python
