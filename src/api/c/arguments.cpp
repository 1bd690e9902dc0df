#include "api/c/arguments.hpp"

#include "api/c/handle.hpp"
#include "api/c/result.hpp"

namespace plait::c {

DataType data_type(plaitDataType_t type) {
  const int number = static_cast<int>(type);
  if (number >= plaitInt8 && number <= plaitFloat8e5m2) return static_cast<DataType>(number);
  if (number == plaitInt16) return DataType::kInt16;
  if (number == plaitUint16) return DataType::kUint16;
  refuse(plaitInvalidArgument, "datatype is ", number, "; it is none of plaitDataType_t");
}
static_assert(static_cast<int>(DataType::kInt8) == plaitInt8 && static_cast<int>(DataType::kUint8) == plaitUint8 &&
              static_cast<int>(DataType::kInt32) == plaitInt32 && static_cast<int>(DataType::kUint32) == plaitUint32 &&
              static_cast<int>(DataType::kInt64) == plaitInt64 && static_cast<int>(DataType::kUint64) == plaitUint64 &&
              static_cast<int>(DataType::kFloat16) == plaitFloat16 &&
              static_cast<int>(DataType::kFloat32) == plaitFloat32 &&
              static_cast<int>(DataType::kFloat64) == plaitFloat64 &&
              static_cast<int>(DataType::kBfloat16) == plaitBfloat16 &&
              static_cast<int>(DataType::kFloat8E4M3) == plaitFloat8e4m3 &&
              static_cast<int>(DataType::kFloat8E5M2) == plaitFloat8e5m2);

void check_stream(plaitComm_t comm, plaitStream_t stream) {
  if (comm->device != PLAIT_DEVICE_HOST || stream == nullptr || stream == PLAIT_BLOCKING) return;
  refuse(plaitInvalidArgument,
         "stream is not NULL, but the buffers of this communicator are in host memory: it was made without a CUDA "
         "device");
}

}  // namespace plait::c
