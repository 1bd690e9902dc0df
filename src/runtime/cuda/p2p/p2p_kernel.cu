// The kernel of sends and receives.
#include "runtime/cuda/p2p/p2p_kernel.cuh"

namespace plait {

const void* p2p_kernel() { return reinterpret_cast<const void*>(&run_p2p); }

}  // namespace plait
