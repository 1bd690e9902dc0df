// One call of a collective on Python's arrays.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/communicator_handle.hpp"

namespace plait::python {

// Shapes of `input` to shapes of the output: the same for all_reduce, reduce, broadcast and all_to_all; for all_gather
// and gather the first axis grows by the number of ranks, for reduce_scatter and scatter it shrinks. `input` may be
// None for scatter where this rank is not the root. Where `output` is None, makes one of the input's kind. Gives the
// output, or None where this rank gets nothing. `op` is as operation_of() takes it. Throws kInvalidArgument and what
// Communicator::run does.
nb::object run_collective(CommunicatorHandle& communicator, Collective collective, nb::handle input, nb::object output,
                          nb::handle dtype, nb::handle op, int root);

}  // namespace plait::python
