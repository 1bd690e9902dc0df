// Launches of kernels that may be put on the GPU before the kernel ahead of them on their stream is over (programmatic
// dependent launch). Behind one that lets them that saves 0.3 to 0.4 us; behind any other it costs 0.04.
//
// Such a kernel begins with ptx::await_launch_before(), and touches nothing but its argument until then. Where it
// waits for nothing any more that has yet to be put on a GPU it calls ptx::let_next_launch_begin(): no sooner,
// since a kernel that was early keeps its SMs, and an earlier one must not wait for what has no room because of that.
#pragma once

#include <cuda_runtime.h>

namespace plait {

// Whether launches of `kernel`, which begins with await_launch_before(), may be early: it was compiled for GPUs that
// can, since elsewhere that call does nothing, and the driver can capture such launches. Its device is current.
bool can_use_pdl(const void* kernel);

// What cudaLaunchKernel takes, and whether it may begin early. Throws kSystem, which names `what`, where CUDA refuses.
void launch_kernel(const void* kernel, dim3 grid, dim3 block, void* argument, cudaStream_t stream, bool pdl,
                   const char* what);

}  // namespace plait
