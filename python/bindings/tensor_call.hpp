// The usual call of a program that uses torch: a collective on tensors as they lie, without what other arrays take.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

#include "bindings/communicator_handle.hpp"

namespace plait::python {

// run_collective() on tensors of torch in C's order, of one type and of the sizes that the collective takes, whatever
// their shapes. On a GPU the call is enqueued on `stream`, or where there is none on torch's current one. `output` is
// that of this rank; it may be the same tensor. Gives false, and does nothing, where an argument is of another kind:
// run_collective() takes it, or says what is wrong. Throws what Communicator::run does, and kInvalidArgument for
// operations that the type does not have.
bool run_on_tensors(CommunicatorHandle& communicator, Collective collective, nb::handle input, nb::handle output,
                    nb::handle op, int root, std::optional<uintptr_t> stream);

}  // namespace plait::python
