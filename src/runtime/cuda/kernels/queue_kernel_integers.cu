// The kernels of 32- and 64-bit integers. Short ones of those without a sign are for the others, too
// (queue_kernel.cpp).
#include "runtime/cuda/kernels/queue_kernel.cuh"
#include "runtime/cuda/kernels/two_shot_kernel.cuh"

namespace plait {

template const void* queue_kernel_of<DataType::kInt32>(Protocol);
template const void* unaligned_kernel_of<DataType::kInt32>();
template const void* queue_kernel_of<DataType::kUint32>(Protocol);
template const void* unaligned_kernel_of<DataType::kUint32>();
template const void* queue_kernel_of<DataType::kInt64>(Protocol);
template const void* unaligned_kernel_of<DataType::kInt64>();
template const void* queue_kernel_of<DataType::kUint64>(Protocol);
template const void* unaligned_kernel_of<DataType::kUint64>();
template const void* two_shot_ll_of<DataType::kUint32, true>(int);
template const void* two_shot_ll_of<DataType::kUint32, false>(int);
template const void* two_shot_ll128_of<DataType::kUint32, true>(size_t);
template const void* two_shot_ll128_of<DataType::kUint32, false>(size_t);
template const void* two_shot_ll_of<DataType::kUint64, true>(int);
template const void* two_shot_ll128_of<DataType::kUint64, true>(size_t);

}  // namespace plait
