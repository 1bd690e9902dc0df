// New arrays for results.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "bindings/array_view.hpp"
#include "bindings/element_type.hpp"

namespace plait::python {

inline nb::tuple as_tuple(const std::vector<size_t>& numbers) {
  nb::list list;
  for (const size_t number : numbers) list.append(number);
  return nb::tuple(list);
}

// A new array like `input`, which was read as `dtype`, or, where that is None, as what it is.
inline nb::object new_like(nb::handle input, const ArrayView& view, nb::handle dtype, const std::vector<size_t>& shape,
                           const AxisOrder& order = {}) {
  const nb::object axes = order.empty() ? nb::none() : nb::object(as_tuple(order));
  return nb::module_::import_("plait.arrays")
      .attr("new_like")(input, as_tuple(shape), name(view.type()), dtype.is_none(), axes);
}

}  // namespace plait::python
