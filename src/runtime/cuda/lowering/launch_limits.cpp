// Limits of launches.
#include "runtime/cuda/lowering/launch_limits.hpp"

#include <algorithm>
#include <cstdint>

#include "runtime/cuda/lowering/device_block.hpp"

namespace plait {

BindLimits launch_limits(const LaunchShape& shape, const Plan& plan) {
  BindLimits limits;
  limits.signal_stride = OrdinaryRoom::kSignalStride;
  limits.signals = OrdinaryRoom::kSignals;
  if (shape.is_long) limits.signals = LongRoom::kSignals;
  switch (shape.protocol) {
    case Protocol::kSimple:
      limits.scratch_bytes = OrdinaryRoom::kScratchBytes;
      break;
    case Protocol::kLl:
      limits.scratch_bytes = BlockLayout::kLlBytes / 2;
      break;
    case Protocol::kLl128:
      // The last line of every slot may be almost empty. Chunks that fill this memory have more than eight lines, so a
      // ninth is enough for that.
      limits.scratch_bytes = BlockLayout::kLl128Bytes / 9 * 8;
      break;
  }
  limits.streaming_scratch_bytes = SIZE_MAX;
  limits.chunk_by_chunk = shape.protocol != Protocol::kSimple;
  limits.channels = static_cast<size_t>(shape.channels);
  // A channel is only worth it if a warp's threads have full accesses in each chunk.
  limits.least_slice_bytes =
      size_t{shape.protocol == Protocol::kLl ? 256u : 512u} * static_cast<size_t>(plan.chunks_per_block);
  return limits;
}

LaunchShape host_path_shape(const LaunchShape& shape) {
  return {Protocol::kSimple, shape.host.channels, shape.threads};
}

BindLimits host_path_limits(const LaunchShape& shape, const Plan& plan) {
  BindLimits limits = launch_limits(host_path_shape(shape), plan);
  limits.scratch_bytes = HostBlockLayout::kScratchBytes;
  return limits;
}

size_t elements_over_links(const Call& call, const LaunchShape& shape) {
  if (shape.host.channels == 0) return call.count;
  const auto most = static_cast<size_t>(static_cast<double>(call.count) * (1 - shape.host.share));
  const size_t granule = std::max<size_t>(1, kChunkAlignment / size_of(call.type));
  return most / granule * granule;
}

}  // namespace plait
