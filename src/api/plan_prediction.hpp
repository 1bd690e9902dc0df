// The time of one plan on one machine by its costs: what `plait calibrate` fits costs with.
#pragma once

#include <string>
#include <vector>

#include "api/machine_plan.hpp"
#include "model/plan_cost.hpp"
#include "model/simulator/program.hpp"

namespace plait {

// A plan that is compiled once, for runs with many costs and sizes.
class PlanPrediction {
 public:
  // `request.algorithm` names the plan. Throws what choose_for_machine() does.
  PlanPrediction(const Topology& topology, const MachinePlanRequest& request, FlagPlace flags);

  const std::string& algorithm() const { return algorithm_; }
  // The kinds of links over which ranks tell each other: of those alone signals cost.
  std::vector<LinkKind> media() const;
  // The time that simulate_on_machine() would predict with these costs.
  double seconds(const Costs& costs, double message_bytes) const;

 private:
  Topology topology_;
  std::string algorithm_;
  SimulatorProgram program_;
  FlagPlace flags_;
};

}  // namespace plait
