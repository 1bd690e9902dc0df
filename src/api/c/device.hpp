// The few things that the C interface asks CUDA itself.
#pragma once

#include <cstddef>

namespace plait::c {

// Devices that this process can use; 0 without a GPU, without a driver and in builds without CUDA.
int device_count();

// The calling thread's current CUDA device, or PLAIT_DEVICE_HOST if none can be used.
int current_device();
// The same for callers that must have one: refuses, and says why, if none can be used.
int require_device();

// Allocates memory of the current device if there is one, else of the host. Never NULL; refuses if there is not enough.
void* allocate(size_t bytes);
void release(void* memory);

}  // namespace plait::c
