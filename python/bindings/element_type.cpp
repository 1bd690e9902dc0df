// Types of elements: by the names and letters that Python's packages have for them.
#include "bindings/element_type.hpp"

#include <array>
#include <cstring>

#include "base/error.hpp"
#include "base/names.hpp"
#include "bindings/python_text.hpp"

namespace plait::python {
namespace {

using Meaning = ElementType::Meaning;

constexpr ElementType kBool{DataType::kUint8, Meaning::kTruth};
constexpr ElementType kComplex64{DataType::kFloat32, Meaning::kComplex};
constexpr ElementType kComplex128{DataType::kFloat64, Meaning::kComplex};
constexpr std::array kOwnTypes = {kBool, kComplex64, kComplex128};  // that the core does not have

std::optional<ElementType> known(std::optional<DataType> type) {
  return type ? std::optional(ElementType{*type}) : std::nullopt;
}

// Finds a type by its size and numpy's letter for its kind of numbers.
std::optional<ElementType> by_kind(char kind, size_t bytes) {
  const auto of_size = [&](std::optional<DataType> one, DataType two, DataType four, DataType eight) {
    return known(bytes == 1   ? one
                 : bytes == 2 ? std::optional(two)
                 : bytes == 4 ? std::optional(four)
                 : bytes == 8 ? std::optional(eight)
                              : std::nullopt);
  };
  switch (kind) {
    case 'i':
      return of_size(DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64);
    case 'u':
      return of_size(DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64);
    case 'f':
      return of_size(std::nullopt, DataType::kFloat16, DataType::kFloat32, DataType::kFloat64);
    case 'b':
      return bytes == 1 ? std::optional(kBool) : std::nullopt;
    case 'c':
      return bytes == 8 ? std::optional(kComplex64) : bytes == 16 ? std::optional(kComplex128) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool is_swapped(std::string_view item) { return item.starts_with('>') || item.starts_with('!'); }

// The letters of a format of Python's module struct, as numpy extends them, without what says the order of bytes.
std::string_view letters_of(std::string_view format) {
  const bool has_order = !format.empty() && std::strchr("@=<>!|", format[0]) != nullptr;
  return format.substr(has_order ? 1 : 0);
}

std::optional<ElementType> by_letters(std::string_view letters, size_t bytes) {
  if (letters == "Zf" || letters == "Zd" || letters == "F" || letters == "D") return by_kind('c', bytes);
  if (letters.size() != 1) return std::nullopt;
  if (letters == "?") return by_kind('b', bytes);
  if (std::strchr("bhilqn", letters[0]) != nullptr) return by_kind('i', bytes);
  if (std::strchr("cBHILQN", letters[0]) != nullptr) return by_kind('u', bytes);
  if (std::strchr("efd", letters[0]) != nullptr) return by_kind('f', bytes);
  return std::nullopt;
}

std::string known_names() {
  std::string names;
  for (int i = 0; i < kDataTypeCount; ++i) names += join(i == 0 ? "" : ", ", name(static_cast<DataType>(i)));
  return names;
}

// The types that numpy takes Python's own number types for.
const char* name_of_python_type(nb::handle dtype) {
  const std::pair<PyTypeObject*, const char*> types[] = {
      {&PyBool_Type, "bool"}, {&PyLong_Type, "int64"}, {&PyFloat_Type, "float64"}, {&PyComplex_Type, "complex128"}};
  for (const auto& [type, name] : types) {
    if (dtype.ptr() == reinterpret_cast<PyObject*>(type)) return name;
  }
  return nullptr;
}

std::string name_of_type(nb::handle dtype) {
  if (nb::isinstance<nb::str>(dtype)) return text_of(dtype);
  if (const char* name = name_of_python_type(dtype)) return name;
  if (nb::hasattr(dtype, "name")) return text_of(dtype.attr("name"));          // numpy.dtype
  if (nb::hasattr(dtype, "__name__")) return text_of(dtype.attr("__name__"));  // numpy.float32
  const std::string text = text_of(dtype);                                     // "torch.float32"
  return text.substr(text.rfind('.') + 1);
}

// Objects (O) and pointers of ctypes (P, z, Z alone, &, X), also within a record: "T{i:number:O:thing:}".
bool has_references(std::string_view format) {
  bool in_name = false;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == ':') in_name = !in_name;
    if (in_name) continue;
    const bool is_complex = format[i] == 'Z' && i + 1 < format.size() && std::strchr("fdg", format[i + 1]) != nullptr;
    if (std::strchr("OPzZ&X", format[i]) != nullptr && !is_complex) return true;
  }
  return false;
}

Advice advice_on_references() {
  return {
      "they are references, which mean nothing to other ranks; pass numpy.asarray(array, 'float64') or the like, or "
      "send pickle.dumps(array)",
      true};
}

Advice advice_to_convert(const char* reason, const ElementType& type) {
  return {join(reason, "pass numpy.asarray(array, '", name(type), "')"), true};
}

constexpr const char* kOtherOrder = "their bytes are in the other order; ";

Advice advice_to_move() { return {"to move their bytes as they are, pass numpy.asarray(array).view('uint8')"}; }

}  // namespace

const char* name(const ElementType& type) {
  if (type == kBool) return "bool";
  if (type == kComplex64) return "complex64";
  if (type == kComplex128) return "complex128";
  return name(type.type);
}

std::optional<ElementType> element_type_by_format(const char* format, size_t bytes) {
  if (format == nullptr) return known(DataType::kUint8);  // bytes
  return is_swapped(format) ? std::nullopt : by_letters(letters_of(format), bytes);
}

std::optional<ElementType> element_type_by_typestr(std::string_view typestr, size_t bytes) {
  if (typestr.size() < 2 || (is_swapped(typestr) && bytes > 1)) return std::nullopt;
  return by_kind(typestr[1], bytes);
}

std::optional<ElementType> element_type_by_name(std::string_view text) {
  for (const ElementType& type : kOwnTypes) {
    if (text == name(type)) return type;
  }
  if (text == "bool_") return kBool;  // numpy before 2
  return known(parse_data_type(text));
}

std::optional<ElementType> element_type_by_dlpack(uint8_t code, uint8_t bits) {
  constexpr int kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kTruth = 6;
  constexpr int kFloat8E4M3Fn = 10, kFloat8E5M2 = 12;
  if (bits % 8 != 0) return std::nullopt;
  const size_t bytes = bits / 8;
  const auto if_of = [&](size_t expected, DataType type) { return bytes == expected ? known(type) : std::nullopt; };
  switch (code) {
    case kInt:
      return by_kind('i', bytes);
    case kUint:
      return by_kind('u', bytes);
    case kFloat:
      return by_kind('f', bytes);
    case kComplex:
      return by_kind('c', bytes);
    case kTruth:
      return by_kind('b', bytes);
    case kBfloat:
      return if_of(2, DataType::kBfloat16);
    case kFloat8E4M3Fn:
      return if_of(1, DataType::kFloat8E4M3);
    case kFloat8E5M2:
      return if_of(1, DataType::kFloat8E5M2);
    default:
      return std::nullopt;
  }
}

ElementType element_type_of(nb::handle dtype) {
  const std::string text = name_of_type(dtype);
  if (const auto type = element_type_by_name(text)) return *type;
  std::string own;
  for (const ElementType& type : kOwnTypes) own += join(", ", name(type));
  fail(ErrorCode::kInvalidArgument, "dtype '", text, "' is none of: ", known_names(), own);
}

DataType data_type_of(nb::handle dtype) {
  const std::string text = name_of_type(dtype);
  const auto type = parse_data_type(text);
  if (!type)
    fail(ErrorCode::kInvalidArgument, "dtype '", text, "' is none of: ", known_names(),
         did_you_mean(text, type_names()));
  return *type;
}

Advice advice_on_format(const char* format, size_t bytes) {
  if (has_references(format)) return advice_on_references();
  const std::string_view letters = letters_of(format);
  if (const auto type = by_letters(letters, bytes)) return advice_to_convert(kOtherOrder, *type);
  // numpy does not read these two of ctypes.
  if (letters == "u") return {"to move their bytes as they are, pass numpy.frombuffer(array, 'uint8')"};
  if (std::string_view(format) == "<g") return {"pass numpy.frombuffer(array, 'longdouble').astype('float64')", true};
  if (letters == "g") return advice_to_convert("", {DataType::kFloat64});
  if (letters == "Zg") return advice_to_convert("", kComplex128);
  return advice_to_move();
}

Advice advice_on_typestr(std::string_view typestr, size_t bytes) {
  const char kind = typestr.size() > 1 ? typestr[1] : '\0';
  if (kind == 'O' || typestr.starts_with("StringDType")) return advice_on_references();
  if (kind == 'M' || kind == 'm') return {"pass numpy.asarray(array).view('int64')"};
  if (const auto type = by_kind(kind, bytes)) return advice_to_convert(kOtherOrder, *type);
  return advice_to_move();
}

}  // namespace plait::python
