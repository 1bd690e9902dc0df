// plait::Error as the exceptions of plait.errors.
#include <array>
#include <exception>

#include "base/error.hpp"
#include "bindings/bindings.hpp"

namespace plait::python {
namespace {

// The class of each code, looked up beforehand: while an error is raised no Python code may run, or a Ctrl-C that has
// come meanwhile would be raised in the middle of it.
using Classes = std::array<nb::object, static_cast<size_t>(ErrorCode::kInternal) + 1>;

void raise(const Error& error, const Classes& classes) {
  const nb::object& type = classes[static_cast<size_t>(error.code())];
  nb::object exception = type(error.what());
  exception.attr("code") = name(error.code());
  PyErr_SetObject(type.ptr(), exception.ptr());
}

}  // namespace

void bind_errors() {
  const nb::object class_of_code = nb::module_::import_("plait.errors").attr("class_of_code");
  // The translator outlives every object of ours, so it keeps the classes for good.
  auto* classes = new Classes;
  for (size_t code = 0; code < classes->size(); ++code) {
    (*classes)[code] = class_of_code(name(static_cast<ErrorCode>(code)));
  }
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void* payload) {
        try {
          std::rethrow_exception(pointer);
        } catch (const Error& error) {
          raise(error, *static_cast<const Classes*>(payload));
        }
      },
      classes);
}

}  // namespace plait::python
