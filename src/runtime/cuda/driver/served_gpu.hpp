// Whether the library has kernels for a GPU.
#pragma once

namespace plait {

// Throws kSystem if CUDA has no image of `kernel` for the current device. The error names the GPU, the GPUs that the
// library has kernels for, and what to do. Any kernel will do, since all are compiled for the same GPUs.
void check_is_served(const void* kernel);

}  // namespace plait
