// Which kernel a call gets.
#include "runtime/cuda/lane_kernel.hpp"

#include "runtime/cuda/by_type.hpp"

namespace plait {

// Made in lane_kernel_*.cu.
template <DataType type>
const void* lane_kernel_of(Protocol protocol);

const void* lane_kernel(Protocol protocol, DataType type) {
  return by_type(type, [&]<DataType known>() { return lane_kernel_of<known>(protocol); });
}

}  // namespace plait
