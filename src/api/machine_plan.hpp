// A plan for a machine, and what is chosen for messages of every size: what `plait plan` shows.
#pragma once

#include <string>
#include <vector>

#include "base/settings.hpp"
#include "plan/verifier.hpp"
#include "topology/topology.hpp"
#include "tuner/tuner.hpp"

namespace plait {

struct MachinePlanRequest {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;     // its name, or more, as parse_spec() reads it; empty: the choice for `bytes`
  int ranks = 0;             // 0: one a GPU
  int root = 0;              // rooted collectives only
  std::vector<int> factors;  // as in AlgorithmArguments, unless `algorithm` has them in parentheses
  int parts = 0;             // the same; 0: left open
  Access access = Access::kStaged;
  size_t bytes = 0;  // of the message; 0: a long one
};

struct MachinePlan {
  RankMachine machine;
  VerifiedPlan plan;
  std::string reason;  // one sentence
  std::vector<ChoiceRange>
      ranges;  // what a communicator of these ranks runs, for float32; empty where one was asked for

  // model/explain.hpp; 0 bytes: for each byte of the message.
  std::string explain(double message_bytes = 0) const;
  // The ranges as a table, a line each.
  std::string table() const;
};

// Places the ranks, chooses as a communicator of them would (`settings`: algorithm, launch, max_sms and reach count),
// and verifies. Throws kInvalidArgument where a machine without GPUs is given no number of ranks, where what is asked
// for is not what an algorithm uses, and as place_ranks and make_plan do.
MachinePlan plan_for_machine(const Topology& topology, const MachinePlanRequest& request, const Settings& settings);

}  // namespace plait
