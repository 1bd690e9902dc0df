// x86-64-v2 (SSE4.2) on x86; what every processor has elsewhere (NEON on 64-bit Arm).
#define PLAIT_FOLD_VARIANT reduce_baseline
#include "runtime/host/reduce_kernels.hpp"
