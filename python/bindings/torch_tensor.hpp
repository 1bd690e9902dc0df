// Tensors of torch without calls of Python, which take longer than to launch a kernel.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

#include "bindings/dlpack.hpp"

namespace plait::python {

namespace nb = nanobind;

// The memory of a tensor that may be read and written as it lies, while it lives. None for whatever else, and where
// torch is older than 2.10 or refuses: other ways find out why. Throws kInvalidArgument, with `role` before the
// message, for views whose elements have another sign than their memory.
std::optional<DlTensor> torch_tensor(nb::handle object, const char* role);

// The stream on which torch works now, on the GPU of such a tensor. None where torch_tensor() gives none, or it lies
// elsewhere.
std::optional<uintptr_t> torch_stream(nb::handle object);

}  // namespace plait::python
