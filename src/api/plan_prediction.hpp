// The time of one plan on one machine by its costs: what `plait calibrate` fits costs with.
#pragma once

#include <string>
#include <vector>

#include "api/machine_plan.hpp"
#include "model/plan_cost.hpp"
#include "model/simulator/program.hpp"

namespace plait {

// How calls were launched that were timed.
struct CallsInARow {
  bool have_ending = true;  // the last slices go as the profile says
  bool have_pdl = true;     // if they can
  bool by_host = false;     // each is launched by the host; else a graph has them
};

// A plan that is compiled once, for runs with many costs and sizes.
class PlanPrediction {
 public:
  // `request.algorithm` names the plan. Throws what choose_for_machine() does.
  PlanPrediction(const Topology& topology, const MachinePlanRequest& request, FlagPlace flags);
  // The same for messages of `request.bytes` alone, as GPUs launch it: launch_for().
  PlanPrediction(const Topology& topology, const MachinePlanRequest& request, const std::string& shape,
                 const CallsInARow& calls);

  const std::string& algorithm() const { return algorithm_; }
  bool is_launch() const { return program_.is_launch(); }
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
