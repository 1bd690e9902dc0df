// Reads tensors by DLPack's table of functions. The table says nothing of gradients, nor of bits that stand for a
// conjugation or a sign, so torch is asked for them.
#include "bindings/torch_tensor.hpp"

#include "base/error.hpp"
#include "bindings/python_text.hpp"

namespace plait::python {
namespace {

constexpr int kDlComplex = 5;

bool calls_true(nb::handle object, const char* method) { return nb::cast<bool>(object.attr(method)()); }

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

std::optional<DlTensor> torch_tensor(nb::handle object, const char* role) {
  const DlExchange* const exchange = exchange_of_torch(object);
  if (exchange == nullptr || exchange->give == nullptr || nb::cast<bool>(object.attr("requires_grad")))
    return std::nullopt;
  DlTensor tensor{};
  if (exchange->give(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  // torch itself refuses the first; of the second, DLPack has no word.
  if (tensor.code == kDlComplex && calls_true(object, "is_conj")) return std::nullopt;
  if (calls_true(object, "is_neg")) {
    fail(ErrorCode::kInvalidArgument, role, ": the tensor is a negative view of others' elements; pass ",
         "tensor.resolve_neg()");
  }
  return tensor;
}

std::optional<uintptr_t> torch_stream(nb::handle object) {
  const DlExchange* const exchange = exchange_of_torch(object);
  if (exchange == nullptr || exchange->give == nullptr) return std::nullopt;
  DlTensor tensor{};
  void* stream = nullptr;
  if (exchange->give(object.ptr(), &tensor) != 0 || tensor.device_type != kDlCuda ||
      exchange->current_stream(tensor.device_type, tensor.device_id, &stream) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return reinterpret_cast<uintptr_t>(stream);
}

}  // namespace plait::python
