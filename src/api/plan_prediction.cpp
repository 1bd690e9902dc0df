// Predictions of plans.
#include "api/plan_prediction.hpp"

#include <array>

#include "api/chosen_launch.hpp"
#include "base/error.hpp"
#include "model/simulator/calls.hpp"
#include "model/simulator/simulation.hpp"
#include "plan/form.hpp"

namespace plait {
namespace {

// Ranks on CPUs were timed in loops of calls. The first three fill pipelines.
constexpr int kCallsOfHosts = 6;

}  // namespace

PlanPrediction::PlanPrediction(const Topology& topology, const MachinePlanRequest& request, FlagPlace flags)
    : topology_(topology), flags_(flags) {
  if (request.algorithm.empty()) {
    fail(ErrorCode::kInvalidArgument, "a prediction is of a plan; name its algorithm");
  }
  const MachineChoice chosen = choose_for_machine(topology, request, {});
  const RankMachine& machine = chosen.tuner->machine();
  const Plan& plan = chosen.tuner->plan(chosen.choice.plan)->plan();
  topology_ = machine.topology;
  algorithm_ = plan.algorithm;
  Routes routes(machine.topology, machine.placement);
  program_ = compile(plan, check_form_of_any_size(plan), routes);
  if (!machine.gpus) program_ = in_a_row(program_, kCallsOfHosts);
}

PlanPrediction::PlanPrediction(const Topology& topology, const MachinePlanRequest& request, const std::string& shape,
                               const CallsInARow& calls)
    : topology_(topology) {
  const MachineChoice chosen = choose_for_machine(topology, request, {});
  const ChosenLaunch launch = launch_for(chosen, request, shape, calls.have_ending);
  const RankMachine& machine = chosen.tuner->machine();
  topology_ = machine.topology;
  algorithm_ = chosen.choice.plan.text();
  flags_ = launch.flags();
  Routes routes(machine.topology, machine.placement);
  program_ = compile_launch(launch.of(request.bytes, calls_in_a_row(request.bytes), calls.have_pdl), routes);
  program_.by_host = calls.by_host;
}

std::vector<LinkKind> PlanPrediction::media() const {
  std::array<bool, kLinkKindCount> is_heard_over = {};
  for (const SimulatedStep& step : program_.steps) {
    if (step.kind == SimulatedStep::Kind::kHear && step.link_kind < kLinkKindCount)
      is_heard_over[step.link_kind] = true;
  }
  std::vector<LinkKind> media;
  for (int kind = 0; kind < kLinkKindCount; ++kind) {
    if (is_heard_over[static_cast<size_t>(kind)]) media.push_back(static_cast<LinkKind>(kind));
  }
  return media;
}

double PlanPrediction::seconds(const Costs& costs, double message_bytes) const {
  const SimulatedMachine machine(program_, topology_, costs, flags_, message_bytes);
  const SimulatedRun run = simulate(program_, machine, message_bytes);
  return seconds_between_calls(program_, machine, run);
}

}  // namespace plait
