// What CUDA's compiler must be told of functions that run on hosts and on GPUs; other compilers need not hear it.
#pragma once

#if defined(__CUDACC__)
#define PLAIT_HOST_DEVICE __host__ __device__
#else
#define PLAIT_HOST_DEVICE
#endif
