// The choice of algorithms and launches on GPUs.
#include <algorithm>

#include "base/error.hpp"
#include "tuner/selection.hpp"

namespace plait {
namespace {

// Figures measured on 2 and 4 H200 (docs/benchmarks.md). Packets carry half the bandwidth of plain stores, but need no
// signal and no wait beside the data's own way.
constexpr size_t kOneShotBytes = 512 << 10;  // stored per rank: (p-1) M in one step …
constexpr size_t kPacketBytes = 2 << 20;     // … against 2(p-1)/p M in two
constexpr size_t kPacketBytesPerStrand = 4 << 10;
constexpr size_t kSignalBytesPerStrand = 32 << 10;
constexpr int kMostStrands = 64;
// CTAs of ranks that share a GPU wait for each other, so all have to fit on it at once: the smallest GPU for data
// centres has more SMs than this.
constexpr int kMostStrandsOnDevice = 64;

int strands_for(const SelectionQuery& query, size_t bytes_per_strand) {
  const int most = std::max(1, std::min(kMostStrands, kMostStrandsOnDevice / query.ranks_per_device));
  return static_cast<int>(std::clamp<size_t>((query.bytes + bytes_per_strand - 1) / bytes_per_strand, 1, most));
}

// Bytes that the busiest rank stores at others in one step.
size_t one_shot_bytes(const SelectionQuery& query) { return query.bytes * static_cast<size_t>(query.ranks - 1); }

}  // namespace

CudaChoice select_for_cuda(const SelectionQuery& query, const AlgorithmOverrides& overrides,
                           const std::optional<LaunchShape>& launch) {
  CudaChoice choice;
  choice.plan.arguments.collective = query.collective;
  const bool has_one_shot = query.collective == Collective::kAllReduce || has_root(query.collective);
  const bool small = query.bytes <= kPacketBytes && query.collective != Collective::kBarrier && query.bytes > 0;
  if (const Choice* forced = overrides.find(query.collective)) {
    choice.plan = *forced;
  } else if (has_one_shot && one_shot_bytes(query) <= kOneShotBytes) {
    choice.plan.algorithm = "one_shot_push";
    choice.plan.reason = join("up to ", kOneShotBytes, " bytes for all peers together: one step has the least latency");
  } else {
    choice.plan.algorithm = "push";
    choice.plan.reason =
        "every GPU reaches every other's memory alike: two stages store the least bytes in the fewest steps";
  }
  choice.plan.arguments.ranks = query.ranks;
  choice.plan.arguments.root = has_root(query.collective) ? query.root : 0;
  choice.plan.arguments.engine = Engine::kSm;
  choice.plan.arguments.reach = Reach::kStaged;
  if (launch) {
    choice.launch = *launch;
    return choice;
  }
  choice.launch.protocol = small ? Protocol::kPackets : Protocol::kSignals;
  choice.launch.strands = strands_for(query, small ? kPacketBytesPerStrand : kSignalBytesPerStrand);
  const size_t threads = (std::min(query.bytes, kPacketBytesPerStrand) / 8 + 31) / 32 * 32;
  choice.launch.threads = small ? static_cast<int>(std::clamp<size_t>(threads, 64, 512)) : 512;
  return choice;
}

}  // namespace plait
