// A plan for a machine: what `plait plan` makes.
#pragma once

#include <string>
#include <vector>

#include "base/settings.hpp"
#include "model/placement.hpp"
#include "plan/verifier.hpp"
#include "topology/topology.hpp"

namespace plait {

struct MachinePlanRequest {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;     // its name, or more, as parse_spec() reads it; empty: the one with the best bound
  int ranks = 0;             // 0: one a GPU
  int root = 0;              // rooted collectives only
  std::vector<int> factors;  // as in AlgorithmArguments, unless `algorithm` has them in parentheses
  int parts = 1;             // the same
  Reach reach = Reach::kStaged;
};

struct MachinePlan {
  Topology topology;
  Placement placement;
  AlgorithmArguments arguments;
  VerifiedPlan plan;
  std::string reason;  // one sentence

  // model/explain.hpp; 0 bytes: for each byte of the message.
  std::string explain(double message_bytes = 0) const;
  // What a communicator of these ranks runs for a message of so many bytes (live_choice.hpp): it cares for latency,
  // too.
  std::string live(size_t message_bytes, const Settings& settings) const;
};

// Places the ranks, makes the plan and verifies it. Without an algorithm, tries all that serve the collective on this
// machine: of those with the best bound (link_load.hpp; equal to one percent), the one with the fewest steps. That is
// the right choice for large messages. Throws kInvalidArgument where a machine without GPUs is given no number of
// ranks, and as place_ranks and make_plan do.
MachinePlan plan_for_machine(const Topology& topology, const MachinePlanRequest& request);

}  // namespace plait
