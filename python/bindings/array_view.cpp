// Reading the buffer protocol, numpy's array interface, and DLPack.
#include "bindings/array_view.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "base/names.hpp"

namespace plait::python {
namespace {

// The part of DLPack's binary interface that it takes to read one tensor.
struct DlTensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t dimensions;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  const int64_t* shape;
  const int64_t* strides;  // in elements; null where there are no gaps
  uint64_t byte_offset;
};

struct VersionedDlTensor {
  uint32_t major, minor;
  void* context;
  void (*deleter)(VersionedDlTensor*);
  uint64_t flags;
  DlTensor tensor;
};
constexpr uint64_t kDlReadOnly = 1;
constexpr uint64_t kDlCopied = 2;
constexpr int kDlOldestVersioned = 1;

bool is_host_memory(int device_type) {
  constexpr int kCpu = 1, kCudaHost = 3, kRocmHost = 11;
  return device_type == kCpu || device_type == kCudaHost || device_type == kRocmHost;
}

std::optional<DataType> by_kind(char kind, size_t bytes) {
  const auto of_size = [&](DataType one, DataType two, DataType four, DataType eight) -> std::optional<DataType> {
    switch (bytes) {
      case 1:
        return one;
      case 2:
        return two;
      case 4:
        return four;
      case 8:
        return eight;
      default:
        return std::nullopt;
    }
  };
  switch (kind) {
    case 'i':
      return of_size(DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64);
    case 'u':
      return of_size(DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64);
    case 'f':
      if (bytes == 1) return std::nullopt;
      return of_size(DataType::kFloat16, DataType::kFloat16, DataType::kFloat32, DataType::kFloat64);
    default:
      return std::nullopt;
  }
}

// Formats of Python's module struct; null means bytes.
std::optional<DataType> by_format(const char* format, size_t bytes) {
  if (format == nullptr) return DataType::kUint8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return std::nullopt;
  if (std::strchr("bhilqn", format[0]) != nullptr) return by_kind('i', bytes);
  if (std::strchr("cBHILQN", format[0]) != nullptr) return by_kind('u', bytes);
  if (std::strchr("efd", format[0]) != nullptr) return by_kind('f', bytes);
  return std::nullopt;
}

std::optional<DataType> by_dlpack(uint8_t code, uint8_t bits) {
  constexpr int kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kFloat8E4M3Fn = 10, kFloat8E5M2 = 12;
  switch (code) {
    case kInt:
      return by_kind('i', bits / 8);
    case kUint:
      return by_kind('u', bits / 8);
    case kFloat:
      return by_kind('f', bits / 8);
    case kBfloat:
      return bits == 16 ? std::optional(DataType::kBfloat16) : std::nullopt;
    case kFloat8E4M3Fn:
      return DataType::kFloat8E4M3;
    case kFloat8E5M2:
      return DataType::kFloat8E5M2;
    default:
      return std::nullopt;
  }
}

// Strides in any unit, of which `item` make one element.
template <class Stride>
bool has_no_gaps(const std::vector<size_t>& shape, const Stride* strides, int64_t item) {
  if (strides == nullptr) return true;
  for (const size_t extent : shape) {
    if (extent == 0) return true;
  }
  int64_t expected = item;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= static_cast<int64_t>(shape[i]);
  }
  return true;
}

std::string class_of(nb::handle object) { return text_of(object.type().attr("__name__")); }

std::string known_types() {
  std::string list;
  for (const std::string_view name : type_names()) list += join(list.empty() ? "" : ", ", name);
  return list;
}

constexpr const char* kGaps = "its elements do not lie one after the other; pass numpy.ascontiguousarray(array)";

}  // namespace

// A text may have halves of surrogate pairs, which UTF-8 does not.
std::string text_of(nb::handle object) {
  const nb::object bytes = nb::str(object).attr("encode")("utf-8", "backslashreplace");
  return nb::borrow<nb::bytes>(bytes).c_str();
}

std::string shape_text(const std::vector<size_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += join(i == 0 ? "" : ", ", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

DataType data_type_of(nb::handle dtype) {
  std::string text;
  if (nb::isinstance<nb::str>(dtype)) {
    text = text_of(dtype);
  } else if (nb::hasattr(dtype, "name")) {  // numpy.dtype
    text = text_of(dtype.attr("name"));
  } else if (nb::hasattr(dtype, "__name__")) {  // numpy.float32
    text = text_of(dtype.attr("__name__"));
  } else {  // "torch.float32"
    text = text_of(dtype);
    text = text.substr(text.rfind('.') + 1);
  }
  const auto type = parse_data_type(text);
  if (!type) {
    const auto guess = did_you_mean(text, type_names());
    fail(ErrorCode::kInvalidArgument, "dtype '", text, "' is none of: ", known_types(), guess);
  }
  return *type;
}

ArrayView::ArrayView(nb::handle array, nb::handle dtype, const char* role) : role_(role) {
  if (PyObject_CheckBuffer(array.ptr()) != 0 && take_buffer(array)) {
    // done
  } else if (nb::hasattr(array, "__array_interface__")) {
    take_array_interface(array);
  } else if (nb::hasattr(array, "__dlpack__") && nb::hasattr(array, "__dlpack_device__")) {
    take_dlpack(array);
  } else if (!refusal_.empty()) {
    refuse("a ", class_of(array), " does not give its memory: ", refusal_);
  } else {
    refuse("a ", class_of(array),
           " is no array; pass a numpy array, a tensor of host memory (DLPack), or what has the "
           "buffer protocol, such as bytearray");
  }
  read_as(dtype);
}

size_t ArrayView::elements() const {
  size_t product = 1;
  for (const size_t extent : shape_) product *= extent;
  return product;
}

template <class... Parts>
void ArrayView::refuse(const Parts&... parts) const {
  fail(ErrorCode::kInvalidArgument, role_, ": ", parts...);
}

// False where the array does not give its buffer: its elements have no letter (bfloat16 of ml_dtypes), say.
bool ArrayView::take_buffer(nb::handle array) {
  Py_buffer& view = buffer_.view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_RECORDS_RO) != 0) {
    refusal_ = text_of(nb::python_error().value());
    return false;
  }
  buffer_.held = true;
  shape_.assign(view.shape, view.shape + view.ndim);
  if (!has_no_gaps(shape_, view.strides, view.itemsize)) refuse(kGaps);
  data_ = static_cast<std::byte*>(view.buf);
  item_bytes_ = static_cast<size_t>(view.itemsize);
  item_name_ = view.format == nullptr ? "B" : view.format;
  read_only_ = view.readonly != 0;
  const auto type = by_format(view.format, item_bytes_);
  known_type_ = type.has_value();
  type_ = type.value_or(DataType::kUint8);
  return true;
}

template <class T>
T ArrayView::interface_part(nb::handle value, const char* name, const char* expected) const {
  T part{};
  if (!nb::try_cast(value, part, false)) {
    refuse("__array_interface__", name, " is ", text_of(nb::repr(value)), " and should be ", expected);
  }
  return part;
}

std::vector<int64_t> ArrayView::interface_numbers(nb::handle value, const char* name) const {
  constexpr const char* kExpected = "a tuple of integers";
  std::vector<int64_t> numbers;
  for (const nb::handle number : interface_part<nb::tuple>(value, name, kExpected)) {
    numbers.push_back(interface_part<int64_t>(number, name, kExpected));
  }
  return numbers;
}

// What the packages that have this interface promise is not to be trusted: anybody may write such an attribute.
void ArrayView::take_array_interface(nb::handle array) {
  owner_ = nb::borrow(array);
  const auto interface = interface_part<nb::dict>(array.attr("__array_interface__"), "", "a dict");
  const auto get = [&](const char* key) { return nb::object(interface.attr("get")(key)); };
  take_interface_type(array, interface_part<nb::str>(get("typestr"), "['typestr']", "a text such as '<f4'"));
  size_t bytes = item_bytes_;
  for (const int64_t extent : interface_numbers(get("shape"), "['shape']")) {
    if (extent < 0) refuse("__array_interface__['shape'] has ", extent, ", and should have integers from 0");
    shape_.push_back(static_cast<size_t>(extent));
    if (extent > 0 && __builtin_mul_overflow(bytes, shape_.back(), &bytes)) {
      refuse("__array_interface__['shape'] is more than any memory holds");
    }
  }
  if (const nb::object strides = get("strides"); !strides.is_none()) {
    const std::vector<int64_t> numbers = interface_numbers(strides, "['strides']");
    if (numbers.size() != shape_.size()) refuse("__array_interface__ has a 'shape' and 'strides' of different lengths");
    if (!has_no_gaps(shape_, numbers.data(), static_cast<int64_t>(item_bytes_))) refuse(kGaps);
  }
  constexpr const char* kData = "a tuple of an address and whether the memory is read-only";
  const auto memory = interface_part<nb::tuple>(get("data"), "['data']", kData);
  if (memory.size() != 2) refuse("__array_interface__['data'] should be ", kData);
  data_ = reinterpret_cast<std::byte*>(interface_part<uintptr_t>(memory[0], "['data'][0]", "an address"));
  read_only_ = interface_part<bool>(memory[1], "['data'][1]", "True or False");
  if (data_ == nullptr && elements() > 0) refuse("__array_interface__['data'] has no address");
}

// `typestr`: the order of bytes, a letter, the bytes of an element, and for times their unit. Types that numpy lacks
// are "V", for void; their array has a dtype with a name.
void ArrayView::take_interface_type(nb::handle array, nb::handle typestr) {
  const std::string text = text_of(typestr);
  constexpr size_t kMostDigits = 9;
  const size_t end = std::min(text.find_first_not_of("0123456789", 2), text.size());
  const bool well_formed = end > 2 && end <= 2 + kMostDigits && std::strchr("<>|=", text[0]) != nullptr &&
                           (end == text.size() || text[end] == '[');
  item_bytes_ = well_formed ? std::stoul(text.substr(2, end - 2)) : 0;
  if (item_bytes_ == 0) {
    refuse("__array_interface__['typestr'] is ", text_of(nb::repr(typestr)), " and should be a text such as '<f4'");
  }
  item_name_ = text;
  const bool named =
      std::strchr("iuf", text[1]) == nullptr && nb::hasattr(array, "dtype") && nb::hasattr(array.attr("dtype"), "name");
  if (named) item_name_ = text_of(array.attr("dtype").attr("name"));
  const auto type = named ? parse_data_type(item_name_) : by_kind(text[0] == '>' ? 'V' : text[1], item_bytes_);
  known_type_ = type.has_value() && size_of(*type) == item_bytes_;
  type_ = type.value_or(DataType::kUint8);
}

void ArrayView::take_dlpack(nb::handle array) {
  const nb::object device = array.attr("__dlpack_device__")();
  nb::tuple type_and_number;
  int device_type = 0;
  if (!nb::try_cast(device, type_and_number, false) || type_and_number.size() != 2 ||
      !nb::try_cast(nb::object(type_and_number[0]), device_type)) {  // an enum in some packages
    refuse("__dlpack_device__() gives ", text_of(nb::repr(device)), " and should give a tuple of two integers");
  }
  if (!is_host_memory(device_type)) {
    refuse("the array is in the memory of a device (DLPack device type ", device_type,
           "), and this communicator works on host memory; pass a copy, such as array.cpu()");
  }
  try {
    try {
      owner_ = array.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(kDlOldestVersioned, 0));
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
      owner_ = array.attr("__dlpack__")();  // older than versions
    }
  } catch (nb::python_error& error) {
    refuse("a ", class_of(array), " cannot be shared: ", text_of(error.value()));
  }
  const DlTensor* tensor = nullptr;
  if (PyCapsule_IsValid(owner_.ptr(), "dltensor_versioned") != 0) {
    const auto* versioned =
        static_cast<const VersionedDlTensor*>(PyCapsule_GetPointer(owner_.ptr(), "dltensor_versioned"));
    if (versioned->major != kDlOldestVersioned) refuse("DLPack of version ", versioned->major, " is not known");
    // What was copied to be shared would not reach the array when written to.
    read_only_ = (versioned->flags & (kDlReadOnly | kDlCopied)) != 0;
    tensor = &versioned->tensor;
  } else if (PyCapsule_IsValid(owner_.ptr(), "dltensor") != 0) {
    tensor = static_cast<const DlTensor*>(PyCapsule_GetPointer(owner_.ptr(), "dltensor"));
  } else {
    refuse("a ", class_of(array), " gives DLPack that cannot be read");
  }
  shape_.assign(tensor->shape, tensor->shape + tensor->dimensions);
  if (!has_no_gaps(shape_, tensor->strides, 1)) refuse(kGaps, " or tensor.contiguous()");
  data_ = static_cast<std::byte*>(tensor->data) + tensor->byte_offset;
  item_bytes_ = size_t{tensor->bits} * tensor->lanes / 8;
  item_name_ = nb::hasattr(array, "dtype") ? text_of(array.attr("dtype")) : join("DLPack type ", +tensor->code);
  const auto type = tensor->lanes == 1 ? by_dlpack(tensor->code, tensor->bits) : std::nullopt;
  known_type_ = type.has_value();
  type_ = type.value_or(DataType::kUint8);
}

void ArrayView::read_as(nb::handle dtype) {
  if (dtype.is_none()) {
    if (known_type_) return;
    refuse("elements of type '", item_name_,
           "' are not known; convert the array, or pass dtype= to read its memory as"
           " one of: ",
           known_types());
  }
  type_ = data_type_of(dtype);
  if (item_bytes_ == size_of(type_)) return;
  const size_t bytes = elements() * item_bytes_;
  if (item_bytes_ != 1 || shape_.size() != 1 || bytes % size_of(type_) != 0) {
    refuse("elements of type '", item_name_, "' have ", item_bytes_, " bytes and cannot be read as ", name(type_),
           " of ", size_of(type_), " bytes");
  }
  shape_ = {bytes / size_of(type_)};
}

}  // namespace plait::python
