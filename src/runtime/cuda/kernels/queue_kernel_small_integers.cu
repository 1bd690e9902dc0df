// The kernels of 8- and 16-bit integers. Short ones of those without a sign are for the others, too (queue_kernel.cpp).
#include "runtime/cuda/kernels/queue_kernel.cuh"
#include "runtime/cuda/kernels/two_shot_kernel.cuh"

namespace plait {

template const void* queue_kernel_of<DataType::kInt8>(Protocol);
template const void* unaligned_kernel_of<DataType::kInt8>();
template const void* queue_kernel_of<DataType::kUint8>(Protocol);
template const void* unaligned_kernel_of<DataType::kUint8>();
template const void* queue_kernel_of<DataType::kInt16>(Protocol);
template const void* unaligned_kernel_of<DataType::kInt16>();
template const void* queue_kernel_of<DataType::kUint16>(Protocol);
template const void* unaligned_kernel_of<DataType::kUint16>();
template const void* two_shot_ll_of<DataType::kUint8, true>(int);
template const void* two_shot_ll_of<DataType::kUint8, false>(int);
template const void* two_shot_ll128_of<DataType::kUint8, true>(size_t);
template const void* two_shot_ll128_of<DataType::kUint8, false>(size_t);
template const void* two_shot_ll_of<DataType::kUint16, true>(int);
template const void* two_shot_ll_of<DataType::kUint16, false>(int);
template const void* two_shot_ll128_of<DataType::kUint16, true>(size_t);
template const void* two_shot_ll128_of<DataType::kUint16, false>(size_t);

}  // namespace plait
