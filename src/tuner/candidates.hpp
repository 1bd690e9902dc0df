// Candidates: the plans of every algorithm that a runtime can perform, each with the time that the model predicts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/plan_cost.hpp"
#include "tuner/choice.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// Limits of a runtime, for each rank of a plan.
struct PlanLimits {
  int least_queues = 0, queues = 1 << 20;
  int operations = 1 << 30, places = 1 << 30;
  int signals = 512;
  int slots = 1 << 20;        // of scratch and host memory
  bool host_memory = true;    // slots there
  bool messages = true;       // between nodes; on one node they become stores (plan/one_node.hpp)
  bool any_engine = true;     // else every queue is an SM's
  bool unread_stores = true;  // see PlanReport

  // Names what the runtime cannot perform: "rank 2 has 5 queues, more than 3". None if it can perform the whole plan.
  std::optional<std::string> excess(const VerifiedPlan& plan) const;
  // The same for a plan that is not proved. Nobody knows yet what it reads.
  std::optional<std::string> excess(const Plan& plan) const;
};

// The place of a GPU protocol's flags.
FlagPlace flags_of(Protocol protocol);

// The predicted time of a plan with one protocol of GPUs. With Simple it is also the time on CPUs.
CostCurve cost_of(const PlanModel& plan, const Costs& costs, Protocol protocol);

// The plan is not yet proved: few of many candidates are chosen, and a proof takes longer than a prediction.
struct Candidate {
  PlanChoice choice;
  Protocol protocol = Protocol::kSimple;
  CostCurve cost;
  double bound_seconds_per_byte = 0;  // no run can be faster: link_load.hpp
  int steps = 0;
};

// A plan that was not tried.
struct LeftOut {
  PlanChoice plan;
  std::string why;         // a sentence
  bool too_large = false;  // to be built, costed or proved; else not for this machine or runtime
};

struct Candidates {
  std::vector<Candidate> all;
  std::vector<LeftOut> left_out;

  // The fastest for so many bytes. Among equals it is the one with fewer steps.
  const Candidate& cheapest(double bytes) const;
  // Null where there is none.
  const Candidate* find(const PlanChoice& choice, Protocol protocol) const;
  // Drops a candidate that turned out not to be usable.
  void drop(LeftOut it);
};

// A choice's candidates, one for each protocol that its plan can carry. Throws what the algorithm does, PlanTooLarge,
// and kInvalidArgument where the runtime cannot perform the plan.
std::vector<Candidate> candidates_of(const PlanChoice& choice, const RankMachine& machine, const PlanLimits& limits,
                                     Routes& routes);

// Hears what is being done, which takes seconds over thousands of ranks. It may throw to end the work.
using TunerProgress = std::function<void(const std::string& what)>;

// Asks every algorithm that serves the collective. Throws kInvalidArgument, which says why, if there is no candidate.
Candidates find_candidates(const RankMachine& machine, const PlanLimits& limits, Collective collective, int root,
                           const TunerProgress& progress = {});
// Throws that.
[[noreturn]] void refuse_all(const RankMachine& machine, Collective collective, const std::vector<LeftOut>& left_out);

}  // namespace plait
