// x86-64-v2 (SSE4.2) on x86; elsewhere what every processor has (NEON on 64-bit Arm).
#define PLAIT_REDUCE_VARIANT reduce_baseline
#include "runtime/host/reduce_kernels.hpp"
