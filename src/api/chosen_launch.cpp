// Launches of choices.
#include "api/chosen_launch.hpp"

#include "algorithms/steps/arguments.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "model/simulator/simulation.hpp"
#include "tuner/gpu_launch.hpp"

namespace plait {
namespace {

bool is_of_others(const RankMachine& machine) {
  const auto gpu = static_cast<size_t>(machine.placement.device_of_rank[0]);
  return machine.topology.devices[gpu].model.find("AMD") != std::string::npos;
}

}  // namespace

FlagPlace ChosenLaunch::flags() const { return zero_copy ? FlagPlace::kBehindData : flags_of(shape.protocol); }

std::string ChosenLaunch::text() const {
  const std::string kernels = to_text(shape, plan->report().shape.queues);
  if (zero_copy) {
    const bool copies = zero_copy->plan().ranks[0].queues[0].engine == Engine::kCopy;
    return join(copies ? "copy engines" : "from buffer to buffer", ", else ", kernels);
  }
  return ending ? join(kernels, ", the last slice of each channel as ", ending->plan().algorithm) : kernels;
}

namespace {

bool knows_launches(const RankMachine& machine) { return why_no_launches(machine).empty(); }

std::optional<double> seconds_of_launch(const RankMachine& machine, const LaunchToTime& it, double most) {
  if (it.zero_copy == nullptr && short_gpu_plan_limits().excess(*it.plan)) return std::nullopt;
  Routes routes(machine.topology, machine.placement);
  const SimulatorProgram program = compile_launch({it.plan, it.ending, it.zero_copy, it.shape, it.bytes}, routes);
  const FlagPlace flags = it.zero_copy ? FlagPlace::kBehindData : flags_of(it.shape.protocol);
  const auto bytes = static_cast<double>(it.bytes);
  const SimulatedMachine simulated(program, machine.topology, machine.profile->costs, flags, bytes);
  return seconds_within(program, simulated, bytes, most);
}

}  // namespace

const LaunchTimer kSimulatedLaunches = {knows_launches, seconds_of_launch};

int calls_in_a_row(size_t bytes) {
  constexpr size_t kShortBytes = 8 << 20;
  return bytes < kShortBytes ? 12 : 4;
}

std::string why_no_launches(const RankMachine& machine) {
  if (!machine.gpus) return "ranks are on CPUs";
  if (machine.ranks() > kMostGpuRanks || !on_one_node(machine.base)) {
    return join("GPUs launch plans of at most ", kMostGpuRanks, " ranks on one node");
  }
  if (machine.ranks() == 1) return "one rank sends nothing";
  if (machine.gpus->ranks_per_device != 1) return "ranks share GPUs";
  if (is_of_others(machine)) return "GPUs are not NVIDIA's";
  const auto& kernels = machine.profile->costs.kernels;
  if (kernels && suits(*kernels, machine.topology, machine.placement.device_of_rank)) return "";
  return join("profile ", machine.profile->name, " has no costs of kernels for these GPUs");
}

ChosenLaunch launch_for(const MachineChoice& chosen, const MachinePlanRequest& request, std::string_view shape,
                        bool with_ending) {
  Tuner& tuner = *chosen.tuner;
  const Query query{request.collective, request.bytes, request.root};
  const GpuLaunch launches(tuner.machine(), query);
  const Choice own = chosen.is_asked_for ? tuner.choose(query) : chosen.choice;
  ChosenLaunch made;
  if (!chosen.is_asked_for) {
    made.plan = tuner.plan(own.plan);
    if (own.zero_copy) made.zero_copy = tuner.plan(*own.zero_copy);
  } else if (chosen.choice.plan.arguments.access == Access::kZeroCopy) {
    made.plan = tuner.plan(own.plan);
    made.zero_copy = tuner.plan(chosen.choice.plan);
  } else {
    made.plan = tuner.plan(chosen.choice.plan);
  }
  const bool is_own = !chosen.is_asked_for || chosen.choice.plan.text() == own.plan.text() || made.zero_copy;
  if (!shape.empty()) {
    made.shape = parse_launch_shape(shape);
    if (made.shape.host.channels > 0) made.shape.host.bytes_per_second = launches.host_pace();
  } else {
    made.shape = is_own ? own.launch : launches.fit(launches.shape(*made.plan, {}), *made.plan);
  }
  if (!made.plan->can_carry_flags(query.type)) made.shape.protocol = Protocol::kSimple;
  if (is_own && own.ending && with_ending && made.shape.protocol == Protocol::kSimple) {
    made.ending = tuner.plan(*own.ending);
  }
  return made;
}

}  // namespace plait
