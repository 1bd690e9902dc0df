// x86-64-v4: AVX-512 F, BW, CD, DQ and VL.
#if defined(__x86_64__)
#define PLAIT_REDUCE_VARIANT reduce_avx512
#include "runtime/host/reduce_kernels.hpp"
#endif
