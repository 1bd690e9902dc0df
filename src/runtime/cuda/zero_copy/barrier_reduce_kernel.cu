// The kernels for a reduce between two barriers.
#include "runtime/cuda/zero_copy/barrier_reduce_kernel.cuh"

namespace plait {

template const void* barrier_reduce_kernel_of<DataType::kInt8>(bool);
template const void* barrier_reduce_kernel_of<DataType::kUint8>(bool);
template const void* barrier_reduce_kernel_of<DataType::kInt16>(bool);
template const void* barrier_reduce_kernel_of<DataType::kUint16>(bool);
template const void* barrier_reduce_kernel_of<DataType::kInt32>(bool);
template const void* barrier_reduce_kernel_of<DataType::kUint32>(bool);
template const void* barrier_reduce_kernel_of<DataType::kInt64>(bool);
template const void* barrier_reduce_kernel_of<DataType::kUint64>(bool);
template const void* barrier_reduce_kernel_of<DataType::kFloat32>(bool);
template const void* barrier_reduce_kernel_of<DataType::kFloat64>(bool);
template const void* barrier_reduce_kernel_of<DataType::kFloat16>(bool);
template const void* barrier_reduce_kernel_of<DataType::kBfloat16>(bool);
template const void* barrier_reduce_kernel_of<DataType::kFloat8E4M3>(bool);
template const void* barrier_reduce_kernel_of<DataType::kFloat8E5M2>(bool);

}  // namespace plait
