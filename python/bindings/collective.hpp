// One call of a collective on Python's arrays.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/communicator_handle.hpp"

namespace plait::python {

// The collective of a call, with a plan that is chosen or one that the communicator was given.
struct Called {
  Collective collective;
  int root = 0;
  uint64_t plan = 0;     // its fingerprint; 0: it is chosen
  uintptr_t stream = 0;  // a cudaStream_t of the rank's GPU; host memory has none
};

// Shapes of `input` to shapes of the output: the same for all_reduce, reduce, broadcast and all_to_all; for all_gather
// and gather the first axis grows by the number of ranks, for reduce_scatter and scatter it shrinks. `input` may be
// None for scatter where this rank is not the root. On a GPU the call is enqueued, and nothing waits for it. Where
// `output` is None, makes one of the input's kind. Gives the output, or None where this rank gets nothing. `op` is as
// operation_of() takes it. Throws kInvalidArgument and what Communicator::run does.
nb::object run_collective(CommunicatorHandle& communicator, const Called& called, nb::handle input, nb::object output,
                          nb::handle dtype, nb::handle op);

// The same by a plan of the caller's own, for its collective. `op` may be None, and `input` and `output` have to be for
// barrier.
nb::object run_plan(CommunicatorHandle& communicator, const VerifiedPlan& plan, nb::handle input, nb::object output,
                    nb::handle dtype, nb::handle op, uintptr_t stream);

}  // namespace plait::python
