#include "runtime/cuda/persistent/persistent_kernel.cuh"

namespace plait {

const void* persistent_kernel() { return reinterpret_cast<const void*>(&run_persistent); }

}  // namespace plait
