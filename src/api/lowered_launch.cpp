// Lowered launches.
#include "api/lowered_launch.hpp"

#include <algorithm>
#include <optional>

#include "runtime/cuda/lowering/launch_limits.hpp"

namespace plait {
namespace {

constexpr int kMostGroups = 8;
// The last group has so many more channels than the first, as a share of those. Equal groups stay side by side.
constexpr double kUneven = 0.4;
// Long runs over many ranks have fewer groups: their steps grow with the square of the ranks.
constexpr uint64_t kMostGroupedRounds = 100'000;

}  // namespace

int LoweredLaunch::channels() const { return static_cast<int>(std::min<uint64_t>(shape.channels, ranks[0].slices)); }

uint64_t LoweredLaunch::rounds() const { return (ranks[0].slices + channels() - 1) / channels(); }

int LoweredLaunch::groups() const {
  if (shape.protocol != Protocol::kSimple) return 1;
  const uint64_t steps = rounds() * ranks.size() * ranks.size();
  const auto most = static_cast<int>(std::clamp<uint64_t>(kMostGroupedRounds / steps, 1, kMostGroups));
  return std::min(most, channels());
}

int LoweredLaunch::width(uint64_t round, int group) const {
  const auto all = static_cast<int>(std::min<uint64_t>(channels(), ranks[0].slices - round * channels()));
  const double last = groups() - 1;  // whose share is the largest
  const auto before = [&](double it) {
    if (last == 0) return static_cast<int>(it * all);
    const double share = (it + kUneven * it * (it - 1) / (2 * last)) / ((last + 1) * (1 + kUneven / 2));
    return static_cast<int>(share * all + 1e-9);
  };
  return before(group + 1) - before(group);
}

const SliceProgram& LoweredLaunch::part(int rank, int queue, uint64_t round) const {
  const QueueProgram& program = ranks[static_cast<size_t>(rank)];
  if (!is_last(round)) return program.full[queue];
  return ranks[0].slices > 1 ? program.ending[queue] : program.last[queue];
}

double LoweredLaunch::bytes_of(int rank, int queue, uint64_t round, int group, int operation, bool on_links) const {
  const QueueProgram& program = ranks[static_cast<size_t>(rank)];
  const SliceProgram& slice = part(rank, queue, round);
  const auto of = [&](const SliceProgram& it) {
    const size_t bytes = program.operations[it.first + static_cast<size_t>(operation)].elements * sizeof(float);
    return static_cast<double>(on_links ? stored_bytes(shape.protocol, bytes) : bytes);
  };
  const int slices = width(round, group);
  const SliceProgram& last = program.last[queue];
  const bool has_last = is_last(round) && group + 1 == groups() && slices > 0;
  if (!has_last || last.count != slice.count) return slices * of(slice);
  return (slices - 1) * of(slice) + of(last);
}

LoweredLaunch lower(const SimulatedLaunch& launch, const Call& call, const BlockPart& part, bool through_host) {
  LoweredLaunch made{{}, through_host ? host_path_shape(launch.shape) : launch.shape, through_host};
  const auto limits = [&](const Plan& plan) {
    return through_host ? host_path_limits(launch.shape, plan) : launch_limits(launch.shape, plan);
  };
  const VerifiedPlan* const ending = through_host ? nullptr : launch.ending;
  for (int rank = 0; rank < launch.plan->plan().rank_count(); ++rank) {
    const BoundPlan bound = bind(*launch.plan, call, rank, limits(launch.plan->plan()), part);
    std::optional<BoundPlan> end;
    if (ending != nullptr) end = bind_alike(bound, *ending, call, rank, limits(ending->plan()), part);
    made.ranks.push_back(make_queue_program(bound, call, rank, made.shape.protocol, end ? &*end : nullptr));
  }
  return made;
}

}  // namespace plait
