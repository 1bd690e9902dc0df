// The kernels of floats that add up in float32.
#include "runtime/cuda/kernels/queue_kernel.cuh"
#include "runtime/cuda/kernels/two_shot_kernel.cuh"

namespace plait {

template const void* queue_kernel_of<DataType::kFloat16>(Protocol);
template const void* unaligned_kernel_of<DataType::kFloat16>();
template const void* queue_kernel_of<DataType::kBfloat16>(Protocol);
template const void* unaligned_kernel_of<DataType::kBfloat16>();
template const void* queue_kernel_of<DataType::kFloat8E4M3>(Protocol);
template const void* unaligned_kernel_of<DataType::kFloat8E4M3>();
template const void* queue_kernel_of<DataType::kFloat8E5M2>(Protocol);
template const void* unaligned_kernel_of<DataType::kFloat8E5M2>();
template const void* two_shot_ll_of<DataType::kFloat16, true>(int);
template const void* two_shot_ll_of<DataType::kFloat16, false>(int);
template const void* two_shot_ll128_of<DataType::kFloat16, true>(size_t);
template const void* two_shot_ll128_of<DataType::kFloat16, false>(size_t);
template const void* two_shot_ll_of<DataType::kBfloat16, true>(int);
template const void* two_shot_ll_of<DataType::kBfloat16, false>(int);
template const void* two_shot_ll128_of<DataType::kBfloat16, true>(size_t);
template const void* two_shot_ll128_of<DataType::kBfloat16, false>(size_t);
template const void* two_shot_ll_of<DataType::kFloat8E4M3, true>(int);
template const void* two_shot_ll_of<DataType::kFloat8E4M3, false>(int);
template const void* two_shot_ll128_of<DataType::kFloat8E4M3, true>(size_t);
template const void* two_shot_ll128_of<DataType::kFloat8E4M3, false>(size_t);
template const void* two_shot_ll_of<DataType::kFloat8E5M2, true>(int);
template const void* two_shot_ll_of<DataType::kFloat8E5M2, false>(int);
template const void* two_shot_ll128_of<DataType::kFloat8E5M2, true>(size_t);
template const void* two_shot_ll128_of<DataType::kFloat8E5M2, false>(size_t);

}  // namespace plait
