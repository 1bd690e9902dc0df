// The few things that the C interface asks CUDA itself.
#pragma once

#include <cstddef>

namespace plait::c {

// Devices that this process can use; 0 without a GPU, without a driver and in builds without CUDA.
int device_count();

// The calling thread's current CUDA device; PLAIT_DEVICE_HOST where none can be used.
int current_device();
// The same, for who must have one: refuses where none can be used, and says why.
int require_device();

// Memory of the current device where there is one, else of the host. Never NULL; refuses where there is not enough.
void* allocate(size_t bytes);
void release(void* memory);

}  // namespace plait::c
