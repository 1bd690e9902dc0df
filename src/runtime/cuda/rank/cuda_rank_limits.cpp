// The room that the memory of a rank and the kernels' protocols have.
#include <cstddef>
#include <cstdint>

#include "runtime/bound_plan.hpp"
#include "runtime/cuda/memory/device_block.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"

namespace plait {

BindLimits CudaRank::limits(const LaunchShape& shape, const Plan& plan) {
  BindLimits limits;
  limits.signal_stride = BlockLayout::kSignalStride;
  limits.signals = BlockLayout::kSignals;
  switch (shape.protocol) {
    case Protocol::kSimple:
      limits.scratch_bytes = BlockLayout::kScratchBytes;
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

size_t CudaRank::ll_bytes(Protocol protocol) {
  return protocol == Protocol::kLl ? BlockLayout::kLlBytes : BlockLayout::kLl128Bytes;
}

}  // namespace plait
