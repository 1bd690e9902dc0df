// The barrier kernel.
#include "runtime/cuda/zero_copy/barrier_kernel.cuh"

namespace plait {

const void* barrier_kernel() { return reinterpret_cast<const void*>(&run_barrier); }

}  // namespace plait
