// Makes lanes.
#include "api/lanes.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "api/cores.hpp"
#include "api/split.hpp"
#include "runtime/collective_step.hpp"
#include "runtime/hosts.hpp"

namespace plait {
namespace {

bool has_core_for_each(const Communicator& of, int lanes_of_rank) {
  const cpu_set_t cores = own_cores();
  const auto ranks = static_cast<int>(of.hosts().ranks_of(of.hosts().node_of(of.rank())).size());
  return ranks * lanes_of_rank <= CPU_COUNT(&cores);
}

}  // namespace

Settings lane_settings(const Communicator& of, int count) {
  Settings settings = of.settings();
  settings.log_level = std::min(LogLevel::kWarn, settings.log_level);
  // Lanes take time from each other, and their plans are checked before.
  settings.adapt = false;
  if (settings.network_gbits == "auto") settings.network_gbits = "off";
  // A thread that spins would keep others from its core.
  if (settings.wait_policy == WaitPolicy::kAuto && !has_core_for_each(of, count))
    settings.wait_policy = WaitPolicy::kYield;
  return settings;
}

std::vector<Communicator> make_lanes(Communicator& of, int count, GpuMessages messages) {
  SplitRequest everybody{.color = 0, .key = of.rank(), .settings = lane_settings(of, count), .on_host = true};
  everybody.settings.gpu_messages = messages;
  std::vector<Communicator> lanes;
  for (int lane = 0; lane < count; ++lane) lanes.push_back(std::move(*split(of, everybody)));
  return lanes;
}

void on_every_rank(Communicator& communicator, const std::function<void()>& step) {
  StepResult own;
  try_step(own, join("rank ", communicator.rank()), step);
  std::vector<StepResult> all(static_cast<size_t>(communicator.size()));
  communicator.all_gather(&own, all.data(), sizeof own, DataType::kUint8);
  throw_first_failure(all);
}

}  // namespace plait
