// The kernels, and which one a call gets.
#include "base/error.hpp"
#include "runtime/cuda/lane_kernel.hpp"
#include "runtime/cuda/line_engine.cuh"
#include "runtime/cuda/packet_engine.cuh"
#include "runtime/cuda/signal_engine.cuh"
#include "runtime/lane_loop.hpp"

namespace plait {
namespace {

template <class Engine>
__global__ void __launch_bounds__(kMostThreads, 1) run_lane(const __grid_constant__ typename Engine::Launch launch) {
  __shared__ std::byte* bases[kFirstScratchBase + kMostDeviceRanks];
  __shared__ int gave_up;
  if (threadIdx.x == 0) gave_up = 0;
  __syncthreads();
  Strand strand(launch, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(gridDim.y),
                &gave_up);
  Engine engine(strand, bases);
  for (uint64_t slice = blockIdx.x; slice < launch.slices; slice += gridDim.x) {
    const SliceProgram& part = slice + 1 < launch.slices ? launch.full[blockIdx.y] : launch.last[blockIdx.y];
    if (!strand.begin()) return;
    engine.begin_slice(slice);
    int next = 0;
    const LaneState state = advance_lane(launch.operations + part.first, part.count, next, engine);
    if (state != LaneState::kDone || !engine.finish_slice()) return;
    strand.end(part, slice + gridDim.x >= launch.slices);
  }
}

template <DataType type>
const void* kernel_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kSignals:
      return reinterpret_cast<const void*>(&run_lane<SignalEngine<type>>);
    case Protocol::kPackets:
      return reinterpret_cast<const void*>(&run_lane<PacketEngine<type>>);
    case Protocol::kLines:
      return reinterpret_cast<const void*>(&run_lane<LineEngine<type>>);
  }
  fail(ErrorCode::kInternal, "no kernel for protocol ", static_cast<int>(protocol));
}

}  // namespace

const void* lane_kernel(Protocol protocol, DataType type) {
  switch (type) {
    case DataType::kInt8:
      return kernel_of<DataType::kInt8>(protocol);
    case DataType::kUint8:
      return kernel_of<DataType::kUint8>(protocol);
    case DataType::kInt16:
      return kernel_of<DataType::kInt16>(protocol);
    case DataType::kUint16:
      return kernel_of<DataType::kUint16>(protocol);
    case DataType::kInt32:
      return kernel_of<DataType::kInt32>(protocol);
    case DataType::kUint32:
      return kernel_of<DataType::kUint32>(protocol);
    case DataType::kInt64:
      return kernel_of<DataType::kInt64>(protocol);
    case DataType::kUint64:
      return kernel_of<DataType::kUint64>(protocol);
    case DataType::kFloat16:
      return kernel_of<DataType::kFloat16>(protocol);
    case DataType::kBfloat16:
      return kernel_of<DataType::kBfloat16>(protocol);
    case DataType::kFloat32:
      return kernel_of<DataType::kFloat32>(protocol);
    case DataType::kFloat64:
      return kernel_of<DataType::kFloat64>(protocol);
    case DataType::kFloat8E4M3:
      return kernel_of<DataType::kFloat8E4M3>(protocol);
    case DataType::kFloat8E5M2:
      return kernel_of<DataType::kFloat8E5M2>(protocol);
  }
  fail(ErrorCode::kInternal, "no kernel for type ", static_cast<int>(type));
}

}  // namespace plait
