// The kernels for floats that accumulate in float32.
#include "runtime/cuda/kernels/call_kernels.cuh"

namespace plait {

template const void* call_kernel_of<DataType::kFloat16>(CallKernel);
template const void* call_kernel_of<DataType::kBfloat16>(CallKernel);
template const void* call_kernel_of<DataType::kFloat8E4M3>(CallKernel);
template const void* call_kernel_of<DataType::kFloat8E5M2>(CallKernel);

}  // namespace plait
