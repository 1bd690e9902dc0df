// The room that the memory of a rank and the kernels' protocols have.
#include <cstddef>

#include "runtime/bound_plan.hpp"
#include "runtime/cuda/lowering/device_block.hpp"
#include "runtime/cuda/lowering/launch_limits.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"

namespace plait {

BindLimits CudaRank::limits(const LaunchShape& shape, const Plan& plan) { return launch_limits(shape, plan); }

BindLimits CudaRank::host_limits(const LaunchShape& shape, const Plan& plan) { return host_path_limits(shape, plan); }

size_t CudaRank::ll_bytes(Protocol protocol) {
  return protocol == Protocol::kLl ? BlockLayout::kLlBytes : BlockLayout::kLl128Bytes;
}

}  // namespace plait
