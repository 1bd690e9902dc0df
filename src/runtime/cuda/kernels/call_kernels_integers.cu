// The kernels for 32- and 64-bit integers.
#include "runtime/cuda/kernels/call_kernels.cuh"

namespace plait {

template const void* call_kernel_of<DataType::kInt32>(CallKernel);
template const void* call_kernel_of<DataType::kUint32>(CallKernel);
template const void* call_kernel_of<DataType::kInt64>(CallKernel);
template const void* call_kernel_of<DataType::kUint64>(CallKernel);

}  // namespace plait
