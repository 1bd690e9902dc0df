// One call of a collective with blocks of unequal sizes, on Python's arrays.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/communicator_handle.hpp"

namespace plait::python {

// The blocks of an array along its first axis: sequences of whole numbers, of rows. None: the array is one block, or
// this rank does not have it; no displacements: each block follows the one before it.
struct RowBlocks {
  nb::handle counts, displacements;
};

// all_gather_v, reduce_scatter_v, gather_v, scatter_v and all_to_all_v, by the name of `collective` without its end.
// `given` are the blocks of `input`, and `got` those of `output`. `input` may be None where this rank gives nothing.
// Where `output` is None, makes one of the input's kind, unless this rank gets nothing. Gives the output, or None where
// this rank gets nothing. Throws kInvalidArgument and what Communicator::run does.
nb::object run_by_counts(CommunicatorHandle& communicator, const char* collective, nb::handle input, nb::object output,
                         nb::handle dtype, nb::handle op, int root, const RowBlocks& given, const RowBlocks& got);

}  // namespace plait::python
