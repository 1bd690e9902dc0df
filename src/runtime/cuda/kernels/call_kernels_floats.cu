// The kernels for floats that accumulate in their own type.
#include "runtime/cuda/kernels/call_kernels.cuh"

namespace plait {

template const void* call_kernel_of<DataType::kFloat32>(CallKernel);
template const void* call_kernel_of<DataType::kFloat64>(CallKernel);

}  // namespace plait
