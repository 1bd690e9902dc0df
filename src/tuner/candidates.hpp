// What could be run, and what it should take: every algorithm's plans that a runtime can perform.
#pragma once

#include <functional>
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
  bool messages = true;       // between nodes; on one node they become stores (plan/one_node.hpp)
  bool any_engine = true;     // else every queue is an SM's
  bool unread_stores = true;  // see PlanReport

  // What the plan has that is not performed, in words: "rank 2 has 5 queues, more than 3"; none where all of it is.
  std::optional<std::string> excess(const VerifiedPlan& plan) const;
  // The same of a plan that is not proved, of which nobody knows what is read.
  std::optional<std::string> excess(const Plan& plan) const;
};

// What a plan should take with a protocol of GPUs; with signals also what it takes on CPUs.
CostCurve cost_of(const PlanModel& plan, const Costs& costs, Protocol protocol);

// Not yet proved: of many candidates few are chosen, and to prove a plan takes longer than to cost it.
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

  // The one that takes the least for so many bytes; of equals the one in fewer steps.
  const Candidate& cheapest(double bytes) const;
  // Null where there is none.
  const Candidate* find(const PlanChoice& choice, Protocol protocol) const;
  // Leaves out what turned out not to be usable.
  void drop(LeftOut it);
};

// Is told what is being done, which takes seconds over thousands of ranks. May throw, and so end it.
using TunerProgress = std::function<void(const std::string& what)>;

// Of every algorithm that serves the collective. Throws kInvalidArgument, with what is in the way, where there is none.
Candidates find_candidates(const RankMachine& machine, const PlanLimits& limits, Collective collective, int root,
                           const TunerProgress& progress = {});
// Throws that.
[[noreturn]] void refuse_all(const RankMachine& machine, Collective collective, const std::vector<LeftOut>& left_out);

}  // namespace plait
