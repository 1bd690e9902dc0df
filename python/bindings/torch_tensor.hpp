// Tensors of torch without calls of Python, which take longer than to launch a kernel.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

#include "bindings/dlpack.hpp"

namespace plait::python {

namespace nb = nanobind;

// The memory of a tensor that may be read and written as it lies, while it lives. None for whatever else, and where
// torch is older than 2.10 or refuses: other ways find out why.
std::optional<DlTensor> torch_tensor(nb::handle object);

// Whether elements of such a tensor have another sign than their memory, of which DLPack says nothing.
bool is_negative_view(nb::handle tensor);

// The stream on which torch works now, on the GPU of such a tensor. None where torch_tensor() gives none, or it lies
// elsewhere.
std::optional<uintptr_t> torch_stream(nb::handle object);

// The same of a tensor that torch_tensor() gave for the object.
std::optional<uintptr_t> current_stream_of(nb::handle object, const DlTensor& tensor);

}  // namespace plait::python
