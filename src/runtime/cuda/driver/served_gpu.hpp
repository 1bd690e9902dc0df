// Whether the library has kernels for a GPU.
#pragma once

namespace plait {

// Throws kSystem where CUDA has no image of `kernel` for the current device: which GPU that is, what the library has
// kernels for, and what to do. Any kernel will do, since all are compiled for the same GPUs.
void check_is_served(const void* kernel);

}  // namespace plait
