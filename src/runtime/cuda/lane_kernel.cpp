// Which kernel a call gets.
#include "runtime/cuda/lane_kernel.hpp"

#include "runtime/cuda/by_type.hpp"
#include "runtime/cuda/short_kernel.hpp"

namespace plait {

// Made in lane_kernel_*.cu.
template <DataType type>
const void* lane_kernel_of(Protocol protocol);
template <DataType type>
const void* unaligned_kernel_of();
template <DataType type>
const void* short_packets_of(int words);
template <DataType type>
const void* short_lines_of(size_t number);

const void* lane_kernel(Protocol protocol, DataType type) {
  return by_type(type, [&]<DataType known>() { return lane_kernel_of<known>(protocol); });
}

const void* unaligned_kernel(DataType type) {
  return by_type(type, [&]<DataType known>() { return unaligned_kernel_of<known>(); });
}

const void* short_packets(DataType type, int words_of_thread) {
  return by_type(type, [&]<DataType known>() { return short_packets_of<known>(words_of_thread); });
}

const void* short_lines(DataType type, size_t number) {
  return by_type(type, [&]<DataType known>() { return short_lines_of<known>(number); });
}

}  // namespace plait
