// Which kernel a call gets.
#include "runtime/cuda/lane_kernel.hpp"

#include "base/error.hpp"

namespace plait {

// Made in lane_kernel_*.cu.
template <DataType type>
const void* lane_kernel_of(Protocol protocol);

const void* lane_kernel(Protocol protocol, DataType type) {
  switch (type) {
    case DataType::kInt8:
      return lane_kernel_of<DataType::kInt8>(protocol);
    case DataType::kUint8:
      return lane_kernel_of<DataType::kUint8>(protocol);
    case DataType::kInt16:
      return lane_kernel_of<DataType::kInt16>(protocol);
    case DataType::kUint16:
      return lane_kernel_of<DataType::kUint16>(protocol);
    case DataType::kInt32:
      return lane_kernel_of<DataType::kInt32>(protocol);
    case DataType::kUint32:
      return lane_kernel_of<DataType::kUint32>(protocol);
    case DataType::kInt64:
      return lane_kernel_of<DataType::kInt64>(protocol);
    case DataType::kUint64:
      return lane_kernel_of<DataType::kUint64>(protocol);
    case DataType::kFloat32:
      return lane_kernel_of<DataType::kFloat32>(protocol);
    case DataType::kFloat64:
      return lane_kernel_of<DataType::kFloat64>(protocol);
    case DataType::kFloat16:
      return lane_kernel_of<DataType::kFloat16>(protocol);
    case DataType::kBfloat16:
      return lane_kernel_of<DataType::kBfloat16>(protocol);
    case DataType::kFloat8E4M3:
      return lane_kernel_of<DataType::kFloat8E4M3>(protocol);
    case DataType::kFloat8E5M2:
      return lane_kernel_of<DataType::kFloat8E5M2>(protocol);
  }
  fail(ErrorCode::kInternal, "no kernel for type ", static_cast<int>(type));
}

}  // namespace plait
