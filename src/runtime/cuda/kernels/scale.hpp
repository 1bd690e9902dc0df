// Pre-multiplied sums on a GPU: a rank's input times its scalar, ahead of the sum on the same stream.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "runtime/premul_scalar.hpp"

namespace plait {

// output[i] = input[i] * scalar, with the bits that the host's scale() gives. `output` is `input` or lies apart; both
// are multiples of an element, and where they lie alike within 16 bytes all goes faster. `processors`: of the device,
// which is current.
void launch_scale(const Scalar& scalar, const void* input, void* output, size_t elements, int sm_count,
                  cudaStream_t stream);

// The kernel for a type, so that it can be loaded before it is needed.
const void* scale_kernel(DataType type);

}  // namespace plait
