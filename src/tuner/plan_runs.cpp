// Runs of plans.
#include "tuner/plan_runs.hpp"

#include "model/simulator/simulation.hpp"
#include "plan/form.hpp"

namespace plait {

const SimulatorProgram& PlanRuns::program_of(const RankMachine& machine, const PlanChoice& choice) {
  const auto [found, is_new] = programs_.try_emplace(choice.text());
  if (is_new) {
    const Plan plan = find_algorithm(choice.algorithm, choice.arguments.collective).make(choice.arguments);
    Routes routes(machine.topology, machine.placement);
    found->second = compile(plan, check_form(plan), routes);
  }
  return found->second;
}

std::optional<double> PlanRuns::seconds(const RankMachine& machine, const Candidate& it, double bytes, double most) {
  const SimulatorProgram& program = program_of(machine, it.choice);
  const SimulatedMachine simulated(program, machine.topology, machine.profile->costs, flags_of(it.protocol), bytes);
  return seconds_within(program, simulated, bytes, most);
}

}  // namespace plait
