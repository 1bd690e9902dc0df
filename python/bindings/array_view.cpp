// Reading the buffer protocol, numpy's array interface, and DLPack.
#include "bindings/array_view.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "bindings/dlpack.hpp"
#include "bindings/python_text.hpp"
#include "bindings/torch_tensor.hpp"

namespace plait::python {
namespace {

constexpr int kHostMemory = 1;  // of DLPack's types of devices

bool is_host_memory(int device_type) {
  constexpr int kCpu = 1, kCudaHost = 3, kRocmHost = 11;
  return device_type == kCpu || device_type == kCudaHost || device_type == kRocmHost;
}
bool is_gpu_memory(int device_type) {
  constexpr int kCuda = 2, kCudaManaged = 13;
  return device_type == kCuda || device_type == kCudaManaged;
}

// Asks for DLPack in its present form, or in the oldest. No stream is waited for: the call is put on the caller's. JAX
// takes -1 for a stream; without any it does not wait either.
nb::object dlpack_of(nb::handle array, bool on_gpu) {
  constexpr int kNoWait = -1;
  const nb::object version = nb::make_tuple(kDlOldestVersioned, 0);
  const nb::object give = array.attr("__dlpack__");
  const bool says_stream = on_gpu && !text_of(array.type().attr("__module__")).starts_with("jax");
  try {
    return says_stream ? give(nb::arg("max_version") = version, nb::arg("stream") = kNoWait)
                       : give(nb::arg("max_version") = version);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // older than versions
    return says_stream ? give(nb::arg("stream") = kNoWait) : give();
  }
}

std::string class_of(nb::handle object) { return text_of(object.type().attr("__name__")); }

}  // namespace

std::string shape_text(const std::vector<size_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += join(i == 0 ? "" : ", ", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

ArrayView::ArrayView(nb::handle array, nb::handle dtype, const char* role, int device) : role_(role), device_(device) {
  if (PyObject_CheckBuffer(array.ptr()) != 0 && take_buffer(array)) {
    check_device(kHostMemory, 0);
  } else if (const auto tensor = torch_tensor(array)) {
    if (is_negative_view(array)) {
      refuse("the tensor is a negative view of others' elements; pass tensor.resolve_neg()");
    }
    check_device(tensor->device_type, tensor->device_id);
    take_dlpack_tensor(*tensor, array);
  } else if (nb::hasattr(array, "__array_interface__")) {
    check_device(kHostMemory, 0);
    take_array_interface(array, "__array_interface__");
  } else if (nb::hasattr(array, "__dlpack__") && nb::hasattr(array, "__dlpack_device__")) {
    take_dlpack(array);
  } else if (device != kNoDevice && nb::hasattr(array, "__cuda_array_interface__")) {
    take_array_interface(array, "__cuda_array_interface__");
  } else if (!refusal_.empty()) {
    refuse("a ", class_of(array), " does not give its memory: ", refusal_);
  } else {
    refuse("a ", class_of(array),
           device == kNoDevice ? " is no array; pass a numpy array, a tensor of host memory (DLPack), or what has the "
                                 "buffer protocol, such as bytearray"
                               : " is no array on a GPU; pass a tensor or an array of torch, JAX, CuPy or numba");
  }
  read_as(dtype);
}

size_t ArrayView::elements() const {
  size_t product = 1;
  for (const size_t extent : shape()) product *= extent;
  return product;
}

void ArrayView::check_writable() const {
  if (read_only_) refuse("the array is read-only");
  if (layout_.shares_elements()) {
    refuse(
        "several elements of the array are in one place, as numpy.broadcast_to() has them; pass one that has a place ",
        "for each");
  }
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
  layout_ = {{view.shape, view.shape + view.ndim}, {}, static_cast<size_t>(view.itemsize)};
  if (view.strides != nullptr) {  // ctypes gives none
    layout_ = Layout::of(std::move(layout_.shape), std::span(view.strides, static_cast<size_t>(view.ndim)),
                         layout_.item_bytes);
  }
  data_ = static_cast<std::byte*>(view.buf);
  item_name_ = view.format == nullptr ? "B" : view.format;
  read_only_ = view.readonly != 0;
  type_ = element_type_by_format(view.format, layout_.item_bytes);
  if (!type_) advice_ = advice_on_format(view.format, layout_.item_bytes);
  return true;
}

template <class T>
T ArrayView::interface_part(nb::handle value, const char* name, const char* expected) const {
  T part{};
  if (!nb::try_cast(value, part, false)) {
    refuse(interface_, name, " is ", text_of(nb::repr(value)), " and should be ", expected);
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

// Anybody may write such an attribute, so its contents are checked.
void ArrayView::take_array_interface(nb::handle array, const char* attribute) {
  owner_ = nb::borrow(array);
  interface_ = attribute;
  const auto interface = interface_part<nb::dict>(array.attr(attribute), "", "a dict");
  const auto get = [&](const char* key) { return nb::object(interface.attr("get")(key)); };
  take_interface_type(array, interface_part<nb::str>(get("typestr"), "['typestr']", "a text such as '<f4'"));
  size_t bytes = layout_.item_bytes;
  for (const int64_t extent : interface_numbers(get("shape"), "['shape']")) {
    if (extent < 0) refuse(interface_, "['shape'] has ", extent, ", and should have integers from 0");
    layout_.shape.push_back(static_cast<size_t>(extent));
    if (extent > 0 && __builtin_mul_overflow(bytes, layout_.shape.back(), &bytes)) {
      refuse(interface_, "['shape'] is more than any memory holds");
    }
  }
  if (const nb::object strides = get("strides"); !strides.is_none()) {
    const std::vector<int64_t> numbers = interface_numbers(strides, "['strides']");
    if (numbers.size() != shape().size()) {
      refuse(interface_, " has a 'shape' and 'strides' of different lengths");
    }
    for (size_t i = 0; i < shape().size(); ++i) {
      int64_t reach = 0;
      if (__builtin_mul_overflow(numbers[i], static_cast<int64_t>(shape()[i]), &reach)) {
        refuse(interface_, "['strides'] reach further than any memory");
      }
    }
    layout_ = Layout::of(shape(), numbers, layout_.item_bytes);
  }
  constexpr const char* kData = "a tuple of an address and whether the memory is read-only";
  const auto memory = interface_part<nb::tuple>(get("data"), "['data']", kData);
  if (memory.size() != 2) refuse(interface_, "['data'] should be ", kData);
  data_ = reinterpret_cast<std::byte*>(interface_part<uintptr_t>(memory[0], "['data'][0]", "an address"));
  read_only_ = interface_part<bool>(memory[1], "['data'][1]", "True or False");
  if (data_ == nullptr && elements() > 0) refuse(interface_, "['data'] has no address");
}

// `typestr`: the order of bytes, a letter, the bytes of an element, and for times their unit. Types that numpy lacks
// are "V", for void; their array has a dtype with a name.
void ArrayView::take_interface_type(nb::handle array, nb::handle typestr) {
  const std::string text = text_of(typestr);
  constexpr size_t kMostDigits = 9;
  const size_t end = std::min(text.find_first_not_of("0123456789", 2), text.size());
  const bool well_formed = end > 2 && end <= 2 + kMostDigits && std::strchr("<>|=", text[0]) != nullptr &&
                           (end == text.size() || text[end] == '[');
  if (text == "|O" || text.starts_with("StringDType")) refuse_type(text, advice_on_typestr(text, 0));
  layout_.item_bytes = well_formed ? std::stoul(text.substr(2, end - 2)) : 0;
  if (layout_.item_bytes == 0) {
    refuse(interface_, "['typestr'] is ", text_of(nb::repr(typestr)), " and should be a text such as '<f4'");
  }
  item_name_ = text;
  type_ = element_type_by_typestr(text, layout_.item_bytes);
  if (type_) return;
  advice_ = advice_on_typestr(text, layout_.item_bytes);
  if (!nb::hasattr(array, "dtype") || !nb::hasattr(array.attr("dtype"), "name")) return;
  item_name_ = text_of(array.attr("dtype").attr("name"));
  const auto named = element_type_by_name(item_name_);
  if (text[1] == 'V' && named && named->bytes() == layout_.item_bytes) type_ = named;
}

void ArrayView::take_dlpack(nb::handle array) {
  const nb::object device = array.attr("__dlpack_device__")();
  nb::tuple type_and_number;
  int device_type = 0, number = 0;
  if (!nb::try_cast(device, type_and_number, false) || type_and_number.size() != 2 ||
      !nb::try_cast(nb::object(type_and_number[0]), device_type) ||  // an enum in some packages
      !nb::try_cast(nb::object(type_and_number[1]), number)) {
    refuse("__dlpack_device__() gives ", text_of(nb::repr(device)), " and should give a tuple of two integers");
  }
  check_device(device_type, number);
  try {
    owner_ = dlpack_of(array, device_ != kNoDevice);
  } catch (nb::python_error& error) {
    refuse("a ", class_of(array), " cannot be shared: ", text_of(error.value()));
  }
  const DlTensor* tensor = nullptr;
  if (PyCapsule_IsValid(owner_.ptr(), "dltensor_versioned") != 0) {
    const auto* versioned =
        static_cast<const VersionedDlTensor*>(PyCapsule_GetPointer(owner_.ptr(), "dltensor_versioned"));
    if (versioned->major != kDlOldestVersioned) refuse("DLPack of version ", versioned->major, " is not known");
    // Writes to a copy would not reach the array.
    read_only_ = (versioned->flags & (kDlReadOnly | kDlCopied)) != 0;
    tensor = &versioned->tensor;
  } else if (PyCapsule_IsValid(owner_.ptr(), "dltensor") != 0) {
    tensor = static_cast<const DlTensor*>(PyCapsule_GetPointer(owner_.ptr(), "dltensor"));
  } else {
    refuse("a ", class_of(array), " gives DLPack that cannot be read");
  }
  take_dlpack_tensor(*tensor, array);
}

void ArrayView::take_dlpack_tensor(const DlTensor& tensor, nb::handle array) {
  const size_t item_bytes = size_t{tensor.bits} * tensor.lanes / 8;
  layout_ = {{tensor.shape, tensor.shape + tensor.dimensions}, {}, item_bytes};
  if (tensor.strides != nullptr) {
    std::vector<int64_t> strides(tensor.strides, tensor.strides + tensor.dimensions);
    for (int64_t& stride : strides) stride *= static_cast<int64_t>(item_bytes);
    layout_ = Layout::of(shape(), strides, item_bytes);
  }
  data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  if (tensor.lanes == 1) type_ = element_type_by_dlpack(tensor.code, tensor.bits);
  if (type_) {
    item_name_ = name(*type_);
    return;
  }
  item_name_ = nb::hasattr(array, "dtype") ? text_of(array.attr("dtype")) : join("DLPack type ", +tensor.code);
  advice_ = {"convert them; to move their bytes as they are, pass tensor.view(torch.uint8) or the like"};
}

void ArrayView::check_device(int device_type, int number) const {
  const bool on_host = is_host_memory(device_type);
  if (device_ == kNoDevice) {
    if (on_host) return;
    refuse("the array is in the memory of a device (DLPack device type ", device_type,
           "), and this communicator works on host memory; pass a copy, such as array.cpu(), or make a communicator of "
           "GPUs: plait.init(device='cuda')");
  }
  if (on_host) {
    refuse("the array is in host memory, and this rank of the communicator works on GPU ", device_,
           "; pass an array of that GPU, such as tensor.cuda(), or make a communicator of host memory: plait.init()");
  }
  if (!is_gpu_memory(device_type))
    refuse("the array is on a device that CUDA does not serve (DLPack type ", device_type, ")");
  if (number != device_) {
    refuse("the array is on GPU ", number, ", and this rank of the communicator works on GPU ", device_,
           "; make it there, or give the communicator that device");
  }
}

void ArrayView::check_lies_in(const AxisOrder& order) const {
  if (layout_.strides.empty() && order.empty()) return;
  if (lie_alike(layout_.dense(order), layout_)) return;
  refuse(
      "its elements have gaps between them, or lie in another order than the call takes them; on GPUs nothing is "
      "copied: pass array.contiguous(), or the like, and copy a result back");
}

// Memory is read as another type only where its own is one of numbers: a result that is written over references ends
// the process.
void ArrayView::read_as(nb::handle dtype) {
  if (!type_) refuse_type(item_name_, advice_);
  if (dtype.is_none()) return;
  type_ = element_type_of(dtype);
  const size_t wanted = type_->bytes(), bytes = elements() * layout_.item_bytes;
  if (layout_.item_bytes == wanted) return;
  const bool is_row_of_bytes = layout_.item_bytes == 1 && shape().size() == 1 && layout_.strides.empty();
  if (!is_row_of_bytes || bytes % wanted != 0) {
    refuse("elements of type '", item_name_, "' have ", counted(layout_.item_bytes, "byte"), " and cannot be read as ",
           name(*type_), " of ", counted(wanted, "byte"), "; only a row of bytes without gaps can");
  }
  layout_ = {{bytes / wanted}, {}, wanted};
}

void ArrayView::refuse_type(const std::string& item, const Advice& advice) const {
  refuse("elements of type '", item, "' are not known; ", advice.text,
         advice.gives_copy ? "; that is a copy: array[...] = copy brings a result back" : "");
}

}  // namespace plait::python
