// The kernel of gates.
#include "runtime/cuda/gate_kernel.cuh"

namespace plait {

const void* gate_kernel() { return reinterpret_cast<const void*>(&run_gate); }

}  // namespace plait
