// The kernels of floats that add up in their own width.
#include "runtime/cuda/lane_kernel.cuh"
#include "runtime/cuda/short_kernel.cuh"

namespace plait {

template const void* lane_kernel_of<DataType::kFloat32>(Protocol);
template const void* unaligned_kernel_of<DataType::kFloat32>();
template const void* lane_kernel_of<DataType::kFloat64>(Protocol);
template const void* unaligned_kernel_of<DataType::kFloat64>();
template const void* short_packets_of<DataType::kFloat32, true>(int);
template const void* short_packets_of<DataType::kFloat32, false>(int);
template const void* short_lines_of<DataType::kFloat32, true>(size_t);
template const void* short_lines_of<DataType::kFloat32, false>(size_t);
template const void* short_packets_of<DataType::kFloat64, true>(int);
template const void* short_lines_of<DataType::kFloat64, true>(size_t);

}  // namespace plait
