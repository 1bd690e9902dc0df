// Prepares launches of copies between two barriers.
#include "runtime/cuda/zero_copy/barrier_copy_kernel.hpp"

#include <algorithm>

#include "runtime/cuda/zero_copy/barrier_launch.hpp"
#include "tuner/choice.hpp"

namespace plait {

// Copies from other ranks come first, so that the CTAs that start last need no link.
BarrierCopyGrid prepare_copies(const CopyQueues& copies, std::span<const uint64_t> agreements,
                               std::span<const std::byte* const> sources, std::byte* output, int sm_count,
                               BarrierCopyLaunch& launch) {
  uint64_t most_bytes = 0;
  for (size_t l = 0; l < copies.queues.size(); ++l) {
    const CopyQueue& queue = copies.queues[l];
    add_barriers(queue, agreements[l], launch);
    for (const PlacedCopy& copy : place(queue, sources, output)) {
      launch.copies[launch.count++] = copy;
      most_bytes = std::max(most_bytes, copy.bytes);
    }
  }
  if (launch.queues == 0 && launch.count == 0) return {};
  constexpr uint64_t kWorthACta = 32 << 10;
  const auto most = static_cast<unsigned>(std::clamp(copies.leaves_room ? sm_count / 2 : sm_count, 1, kPullSms));
  BarrierCopyGrid grid;
  grid.rows = std::clamp(launch.count, 1u, most);
  grid.ctas = static_cast<unsigned>(std::clamp<uint64_t>(most_bytes / kWorthACta, 1, most / grid.rows));
  return grid;
}

}  // namespace plait
