// plait::Error as the exceptions of plait.errors.
#include <exception>

#include "base/error.hpp"
#include "bindings/bindings.hpp"

namespace plait::python {
namespace {

// The class of plait.errors, and an exception of it that knows its code.
void raise(const Error& error, nb::handle class_of_code) {
  nb::object type = class_of_code(name(error.code()));
  nb::object exception = type(error.what());
  exception.attr("code") = name(error.code());
  PyErr_SetObject(type.ptr(), exception.ptr());
}

}  // namespace

void bind_errors() {
  nb::object class_of_code = nb::module_::import_("plait.errors").attr("class_of_code");
  // The translator outlives every object of ours, so it keeps the function for good.
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* function) {
        try {
          std::rethrow_exception(pointer);
        } catch (const Error& error) {
          raise(error, nb::handle(static_cast<PyObject*>(function)));
        }
      },
      class_of_code.release().ptr());
}

}  // namespace plait::python
