// The kernels of floats that add up in their own width.
#include "runtime/cuda/kernels/queue_kernel.cuh"
#include "runtime/cuda/kernels/two_shot_kernel.cuh"

namespace plait {

template const void* queue_kernel_of<DataType::kFloat32>(Protocol);
template const void* unaligned_kernel_of<DataType::kFloat32>();
template const void* queue_kernel_of<DataType::kFloat64>(Protocol);
template const void* unaligned_kernel_of<DataType::kFloat64>();
template const void* two_shot_ll_of<DataType::kFloat32, true>(int);
template const void* two_shot_ll_of<DataType::kFloat32, false>(int);
template const void* two_shot_ll128_of<DataType::kFloat32, true>(size_t);
template const void* two_shot_ll128_of<DataType::kFloat32, false>(size_t);
template const void* two_shot_ll_of<DataType::kFloat64, true>(int);
template const void* two_shot_ll128_of<DataType::kFloat64, true>(size_t);

}  // namespace plait
