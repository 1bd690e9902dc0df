// all_to_all of Python's arrays that lie anywhere.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/communicator_handle.hpp"

namespace plait::python {

// An all_to_all_v: rank r gets the r-th of `inputs`, and what it gives goes to the r-th of `outputs`. All arrays have
// one type, and no array of the outputs shares memory with another one. Throws kInvalidArgument and what
// Communicator::run does.
void run_all_to_all(CommunicatorHandle& communicator, nb::sequence inputs, nb::sequence outputs, nb::handle dtype);

}  // namespace plait::python
