// What could be run, and what it should take: every algorithm's plans that a runtime can perform.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/plan_cost.hpp"
#include "tuner/choice.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// What a runtime can perform, of every rank.
struct PlanLimits {
  int least_queues = 0, queues = 1 << 20;
  int operations = 1 << 30, places = 1 << 30;
  int signals = 512;
  int slots = 1 << 20;        // of scratch and host memory
  bool host_memory = true;    // slots there
  bool messages = true;       // between nodes
  bool any_engine = true;     // else every queue is an SM's
  bool unread_stores = true;  // see PlanReport

  // What the plan has that is not performed, in words: "rank 2 has 5 queues, more than 3"; none where all of it is.
  std::optional<std::string> excess(const VerifiedPlan& plan) const;
};

// What a plan should take, with a protocol of GPUs; with signals also what it takes on CPUs.
CostCurve cost_of(const VerifiedPlan& plan, const LinkLoad& load, Routes& routes, const Costs& costs,
                  Protocol protocol);

struct Candidate {
  PlanChoice choice;
  Protocol protocol = Protocol::kSimple;
  CostCurve cost;
  double bound_seconds_per_byte = 0;  // no run can be faster: link_load.hpp
  int steps = 0;
};

struct Candidates {
  std::vector<Candidate> all;
  std::string refusals;  // what does not fit this machine or these limits, a line each

  // The one that takes the least for so many bytes; of equals the one in fewer steps.
  const Candidate& cheapest(double bytes) const;
};

// Of every algorithm that serves the collective. Throws kInvalidArgument, with all refusals, where there is none.
Candidates find_candidates(const RankMachine& machine, const PlanLimits& limits, Collective collective, int root);

}  // namespace plait
