// Parts that functions of plans share: arguments that Python gives as text, and progress that is told to Python.
#pragma once

#include <string>

#include "bindings/bindings.hpp"
#include "plan/plan.hpp"
#include "tuner/candidates.hpp"

namespace plait::python {

// "staged" or "zero_copy"; throws kInvalidArgument.
Access parse_access(const std::string& text);

// Calls a function of Python's, or none, from where its lock is not held; hears Ctrl-C as well.
TunerProgress teller(const nb::object& progress);

}  // namespace plait::python
