// The kernels for 8- and 16-bit integers.
#include "runtime/cuda/kernels/call_kernels.cuh"

namespace plait {

template const void* call_kernel_of<DataType::kInt8>(CallKernel);
template const void* call_kernel_of<DataType::kUint8>(CallKernel);
template const void* call_kernel_of<DataType::kInt16>(CallKernel);
template const void* call_kernel_of<DataType::kUint16>(CallKernel);

}  // namespace plait
