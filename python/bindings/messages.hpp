// Messages between two ranks on Python's arrays.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/communicator_handle.hpp"

namespace plait::python {

// `sends` and `receives` are sequences of (peer, array). `is_wanted` is None, or a function of Python for
// Communicator::exchange, which calls on GPUs do not ask. Throws kInvalidArgument and what Communicator::exchange does.
void exchange_arrays(CommunicatorHandle& communicator, nb::sequence sends, nb::sequence receives, nb::handle dtype,
                     uintptr_t stream, nb::handle is_wanted);

}  // namespace plait::python
