#include "runtime/cuda/cpu_driven/work_kernel.cuh"

namespace plait {

const void* work_kernel() { return reinterpret_cast<const void*>(&run_work); }

}  // namespace plait
