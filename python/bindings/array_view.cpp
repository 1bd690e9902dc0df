// Reading the buffer protocol, numpy's array interface, and DLPack.
#include "bindings/array_view.hpp"

#include <cstdint>
#include <cstring>
#include <optional>

#include "base/error.hpp"

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

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }
std::string class_of(nb::handle object) { return text_of(object.type().attr("__name__")); }

std::string known_types() {
  std::string names;
  for (int i = 0; i < kDataTypeCount; ++i) names += join(i == 0 ? "" : ", ", name(static_cast<DataType>(i)));
  return names;
}

constexpr const char* kGaps = "its elements do not lie one after the other; pass numpy.ascontiguousarray(array)";

}  // namespace

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
  if (!type) fail(ErrorCode::kInvalidArgument, "dtype '", text, "' is none of: ", known_types());
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

void ArrayView::take_array_interface(nb::handle array) {
  owner_ = nb::borrow(array);
  const nb::dict interface = nb::cast<nb::dict>(array.attr("__array_interface__"));
  const nb::tuple memory = nb::cast<nb::tuple>(interface["data"]);
  data_ = reinterpret_cast<std::byte*>(nb::cast<uintptr_t>(memory[0]));
  read_only_ = nb::cast<bool>(memory[1]);
  for (const nb::handle extent : nb::cast<nb::tuple>(interface["shape"])) shape_.push_back(nb::cast<size_t>(extent));
  const nb::object dtype = array.attr("dtype");
  item_bytes_ = nb::cast<size_t>(dtype.attr("itemsize"));
  item_name_ = text_of(dtype.attr("name"));
  const auto type = parse_data_type(item_name_);
  known_type_ = type.has_value();
  type_ = type.value_or(DataType::kUint8);
  if (!nb::cast<bool>(array.attr("flags").attr("c_contiguous"))) refuse(kGaps);
}

void ArrayView::take_dlpack(nb::handle array) {
  const nb::object device_type_object = array.attr("__dlpack_device__")()[0];
  const int device_type = nb::cast<int>(nb::int_(device_type_object));  // an enum in some packages
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
