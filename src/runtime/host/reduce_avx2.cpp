// x86-64-v3: AVX2 and F16C.
#if defined(__x86_64__)
#define PLAIT_REDUCE_VARIANT reduce_avx2
#include "runtime/host/reduce_kernels.hpp"
#endif
