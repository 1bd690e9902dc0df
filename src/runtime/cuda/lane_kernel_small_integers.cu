// The kernels of 8- and 16-bit integers.
#include "runtime/cuda/lane_kernel.cuh"
#include "runtime/cuda/one_step_kernel.cuh"

namespace plait {

template const void* lane_kernel_of<DataType::kInt8>(Protocol);
template const void* lane_kernel_of<DataType::kUint8>(Protocol);
template const void* lane_kernel_of<DataType::kInt16>(Protocol);
template const void* lane_kernel_of<DataType::kUint16>(Protocol);
template const void* one_step_packets_of<DataType::kInt8>(int);
template const void* one_step_lines_of<DataType::kInt8>(size_t);
template const void* one_step_packets_of<DataType::kUint8>(int);
template const void* one_step_lines_of<DataType::kUint8>(size_t);
template const void* one_step_packets_of<DataType::kInt16>(int);
template const void* one_step_lines_of<DataType::kInt16>(size_t);
template const void* one_step_packets_of<DataType::kUint16>(int);
template const void* one_step_lines_of<DataType::kUint16>(size_t);

}  // namespace plait
