// Marks functions that run on hosts and on GPUs. Only CUDA's compiler needs the mark.
#pragma once

#if defined(__CUDACC__)
#define PLAIT_HOST_DEVICE __host__ __device__
#else
#define PLAIT_HOST_DEVICE
#endif
