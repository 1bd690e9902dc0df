// The kernels of floats that add up in their own width.
#include "runtime/cuda/kernels/call_kernels.cuh"

namespace plait {

template const void* call_kernel_of<DataType::kFloat32>(CallKernel);
template const void* call_kernel_of<DataType::kFloat64>(CallKernel);

}  // namespace plait
