// The element types of Python's arrays, and the core's types for them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.hpp"

namespace plait::python {

namespace nb = nanobind;

// A type whose bytes are numbers. The core has none for truth values and complex numbers; it sees uint8 and pairs of
// floats.
struct ElementType {
  enum class Meaning : uint8_t { kNumber, kTruth, kComplex };

  DataType type = DataType::kUint8;  // what the core sees
  Meaning meaning = Meaning::kNumber;

  size_t parts() const { return meaning == Meaning::kComplex ? 2 : 1; }  // of that type in one element
  size_t bytes() const { return parts() * size_of(type); }
  friend bool operator==(const ElementType&, const ElementType&) = default;
};

// "float32", "bool", "complex64", …: what numpy and torch call it.
const char* name(const ElementType& type);

// Reads how an array describes its elements, of `bytes` each. None for elements that are no numbers (objects, texts,
// times, records) or that the core cannot read (another byte order, more than 64 bits).
std::optional<ElementType> element_type_by_format(const char* format, size_t bytes);         // of the buffer protocol
std::optional<ElementType> element_type_by_typestr(std::string_view typestr, size_t bytes);  // of numpy's interface
std::optional<ElementType> element_type_by_name(std::string_view name);                      // of a dtype
std::optional<ElementType> element_type_by_dlpack(uint8_t code, uint8_t bits);

// "bfloat16", bool, numpy.float32, numpy.dtype("f4"), torch.bfloat16, … Throws kInvalidArgument with the known names.
ElementType element_type_of(nb::handle dtype);
// The same for the core's own types alone.
DataType data_type_of(nb::handle dtype);

// Says what to do about an array whose elements have none of these types.
struct Advice {
  std::string text;
  bool gives_copy = false;  // following it gives another array, whose values are to be copied back into one for results
};
Advice advice_on_format(const char* format, size_t bytes);
Advice advice_on_typestr(std::string_view typestr, size_t bytes);

}  // namespace plait::python
