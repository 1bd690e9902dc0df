// Python's own text of an object, for messages.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace plait::python {

namespace nb = nanobind;

// str(object). A text may have halves of surrogate pairs, which UTF-8 does not: "\\ud800".
inline std::string text_of(nb::handle object) {
  const nb::object encoded = nb::str(object).attr("encode")("utf-8", "backslashreplace");
  const auto bytes = nb::borrow<nb::bytes>(encoded);
  return {bytes.c_str(), bytes.size()};
}

}  // namespace plait::python
