// Programs of launches.
#include "api/launch_program.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "api/launch_copies.hpp"
#include "api/launch_kernels.hpp"
#include "api/launch_steps.hpp"
#include "api/lowered_launch.hpp"
#include "plan/conditions.hpp"
#include "runtime/cuda/lowering/launch_limits.hpp"

namespace plait {
namespace {

Call call_of(const SimulatedLaunch& launch) {
  const Plan& plan = launch.plan->plan();
  const size_t blocks = has_rank_blocks(plan.collective) ? plan.ranks.size() : 1;
  const size_t count = launch.bytes / (blocks * size_of(DataType::kFloat32));
  return call_by(*launch.plan, DataType::kFloat32, ReduceOp::kSum, std::max<size_t>(1, count));
}

}  // namespace

SimulatorProgram compile_launch(const SimulatedLaunch& launch, Routes& routes) {
  const Plan& plan = launch.plan->plan();
  const Call call = call_of(launch);
  const size_t over_links = elements_over_links(call, launch.shape);
  std::optional<LoweredLaunch> main, host_path;
  if (launch.zero_copy == nullptr) main = lower(launch, call, {0, over_links}, false);
  if (over_links < call.count) host_path = lower(launch, call, {over_links, call.count - over_links}, true);

  // Queues of the simulator: those of the main launch or of copies, then those of the host path.
  std::vector<int> none(plan.ranks.size()), before, all;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    before.push_back(main ? main->groups() * main->ranks[rank].queues
                          : static_cast<int>(std::ssize(launch.zero_copy->plan().ranks[rank].queues)));
    all.push_back(before.back() + (host_path ? host_path->groups() * host_path->ranks[rank].queues : 0));
  }
  LaunchSteps steps(routes, {launch.calls, launch.pdl && main && !host_path, std::move(all)});
  if (main) {
    steps.program().groups = main->groups();
    add_kernels(*main, plan, none, steps);
  } else {
    const double share = static_cast<double>(over_links) / static_cast<double>(call.count);
    add_copies(launch.zero_copy->plan(), static_cast<double>(launch.bytes) * share, steps);
  }
  if (host_path) add_kernels(*host_path, plan, before, steps);
  return steps.take();
}

}  // namespace plait
