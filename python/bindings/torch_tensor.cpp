// Reads tensors by DLPack's table of functions. The table says nothing of gradients, nor of bits that stand for a
// conjugation or a sign, so torch is asked for them.
#include "bindings/torch_tensor.hpp"

#include "bindings/python_text.hpp"

namespace plait::python {
namespace {

constexpr int kDlComplex = 5;

// Names that do not have to be made anew for each call.
struct TensorNames {
  PyObject* requires_grad = PyUnicode_InternFromString("requires_grad");
  PyObject* is_conj = PyUnicode_InternFromString("is_conj");
  PyObject* is_neg = PyUnicode_InternFromString("is_neg");
};
const TensorNames& tensor_names() {
  static const TensorNames names;
  return names;
}

bool is_true(PyObject* answer) {
  const auto held = nb::steal(answer);
  if (!held.is_valid()) nb::raise_python_error();
  return nb::cast<bool>(held);
}
bool has_true(nb::handle object, PyObject* attribute) { return is_true(PyObject_GetAttr(object.ptr(), attribute)); }
bool calls_true(nb::handle object, PyObject* method) {
  return is_true(PyObject_CallMethodObjArgs(object.ptr(), method, nullptr));
}

const DlExchange* exchange_of(PyTypeObject* type) {
  const auto capsule =
      nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__"));
  void* const found = capsule.is_valid() ? PyCapsule_GetPointer(capsule.ptr(), kDlExchangeCapsule) : nullptr;
  if (found == nullptr) PyErr_Clear();
  const auto* const exchange = static_cast<const DlExchange*>(found);
  return exchange != nullptr && exchange->major == kDlOldestVersioned ? exchange : nullptr;
}

// The types of torch's tensors and parameters: two, or one more where a program has a subclass of its own. The one of
// the last call is nearly always that of the next. Under the interpreter's lock.
const DlExchange* exchange_of_torch(nb::handle object) {
  static PyTypeObject* last = nullptr;  // held, so that no other type takes its address
  static const DlExchange* exchange = nullptr;
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (type == last) return exchange;
  if (!text_of(object.type().attr("__module__")).starts_with("torch")) return nullptr;
  Py_XDECREF(reinterpret_cast<PyObject*>(last));
  Py_INCREF(reinterpret_cast<PyObject*>(type));
  last = type;
  exchange = exchange_of(type);
  return exchange;
}

}  // namespace

std::optional<DlTensor> torch_tensor(nb::handle object) {
  const DlExchange* const exchange = exchange_of_torch(object);
  if (exchange == nullptr || exchange->give == nullptr || has_true(object, tensor_names().requires_grad))
    return std::nullopt;
  DlTensor tensor{};
  if (exchange->give(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  // torch itself refuses to give it by other ways.
  if (tensor.code == kDlComplex && calls_true(object, tensor_names().is_conj)) return std::nullopt;
  return tensor;
}

bool is_negative_view(nb::handle tensor) { return calls_true(tensor, tensor_names().is_neg); }

std::optional<uintptr_t> torch_stream(nb::handle object) {
  const DlExchange* const exchange = exchange_of_torch(object);
  if (exchange == nullptr || exchange->give == nullptr) return std::nullopt;
  DlTensor tensor{};
  if (exchange->give(object.ptr(), &tensor) == 0) return current_stream_of(object, tensor);
  PyErr_Clear();
  return std::nullopt;
}

std::optional<uintptr_t> current_stream_of(nb::handle object, const DlTensor& tensor) {
  const DlExchange* const exchange = exchange_of_torch(object);
  void* stream = nullptr;
  if (tensor.device_type != kDlCuda || exchange->current_stream(tensor.device_type, tensor.device_id, &stream) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return reinterpret_cast<uintptr_t>(stream);
}

}  // namespace plait::python
