// Long launches.
#include "api/long_launch.hpp"

#include <algorithm>

#include "api/plan_limits.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/cuda/lowering/launch_limits.hpp"
#include "runtime/cuda/lowering/queue_program.hpp"

namespace plait {

bool needs_long_launch(const VerifiedPlan& plan, const Call& call, const LaunchShape& shape) {
  if (!short_gpu_plan_limits().excess(plan.plan())) return false;  // for all calls: nothing need be lowered
  for (int rank = 0; rank < plan.plan().rank_count(); ++rank) {
    const RankPlan& it = plan.plan().ranks[static_cast<size_t>(rank)];
    if (it.queues.size() > kMostQueues || it.signals > OrdinaryRoom::kSignals) return true;
    const BoundPlan bound = bind(plan, call, rank, launch_limits(shape, plan.plan()));
    if (!fits_argument(make_queue_program(bound, call, rank, Protocol::kSimple))) return true;
  }
  return false;
}

LaunchShape long_shape(LaunchShape shape, int queues, const GpuRoom& room) {
  // Kernels of up to 512 threads leave registers for so many of an SM.
  constexpr int kThreadsOfProcessor = kMostThreads;
  // As in GpuLaunch::fit().
  const int share = room.ranks == 1 ? 1 : 2 * room.ranks;
  shape.is_long = true;
  shape.host = {};
  shape.channels = std::min(shape.channels, kLongChannels);
  for (;;) {
    const int channels = room.processors * (kThreadsOfProcessor / shape.threads) / (std::max(1, queues) * share);
    if (channels >= 1 || shape.threads <= kLeastThreads) {
      shape.channels = std::clamp(shape.channels, 1, std::max(1, channels));
      return shape;
    }
    shape.threads = std::max(kLeastThreads, shape.threads / 64 * 32);  // a half, in warps
  }
}

}  // namespace plait
