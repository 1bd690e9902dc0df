// Pre-multiplied sums on a GPU: multiplies a rank's input by its scalar, before the sum on the same stream.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "runtime/premul_scalar.hpp"

namespace plait {

// Computes output[i] = input[i] * scalar, bit for bit as the host's scale(). `output` is `input` or does not overlap
// it. Both are aligned to elements; it is faster if their addresses are the same modulo 16. `sm_count`: how many SMs
// the current device has.
void launch_scale(const Scalar& scalar, const void* input, void* output, size_t elements, int sm_count,
                  cudaStream_t stream);

// The kernel for a type, so that it can be loaded in advance.
const void* scale_kernel(DataType type);

}  // namespace plait
