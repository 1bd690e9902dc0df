// A plan for a machine, and what is chosen for messages of every size: what `plait plan` shows.
#pragma once

#include <memory>
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

// A row of the table.
struct PlannedRange : ChoiceRange {
  // Of ranks on GPUs: what the plan needs and the GPU runtime does not have yet. Ranks on CPUs run it. Else empty.
  std::string lacking_on_gpus;
  std::string on_gpus;  // what GPUs run then, where there is something that they can
};

// Which plan a request is about.
struct MachineChoice {
  std::shared_ptr<Tuner> tuner;  // that chose
  Choice choice;
  bool is_asked_for = false;  // by its name
};

struct MachinePlan {
  std::shared_ptr<Tuner> tuner;  // that chose
  VerifiedPlan plan;
  Choice choice;
  bool is_asked_for = false;  // by its name
  // What a communicator of these ranks runs, for float32; empty where a plan was asked for.
  std::vector<PlannedRange> ranges;

  const RankMachine& machine() const { return tuner->machine(); }
  const std::string& reason() const { return choice.plan.reason; }  // one sentence
  // What the model did not try; empty where it was not asked.
  std::vector<LeftOut> left_out() const;
  // How GPUs launch it: "62 channels, 62 CTAs of 512 threads, Simple"; empty where they do not, and where a plan was
  // asked for.
  std::string launch() const;
  // tuner/explain.hpp; 0 bytes: a long message.
  std::string explain(size_t message_bytes = 0, const TunerProgress& progress = {}) const;
  // The ranges as a table, a line or a few each; and what to know of it, a sentence a line.
  std::string table() const;
  std::string notes() const;
};

// Places the ranks, and chooses what a communicator of them runs for the request's bytes, unless that names an
// algorithm; nothing is proved that is asked for by its name. Throws what plan_for_machine() does, but of the plan.
MachineChoice choose_for_machine(const Topology& topology, const MachinePlanRequest& request, const Settings& settings,
                                 const TunerProgress& progress = {});
// Places the ranks, chooses as a communicator of them would (`settings`: algorithm, launch, max_sms and reach count),
// and verifies. Throws kInvalidArgument where a machine without GPUs is given no number of ranks, where what is asked
// for is not what an algorithm uses, and as place_ranks and make_plan do.
MachinePlan plan_for_machine(const Topology& topology, const MachinePlanRequest& request, const Settings& settings,
                             const TunerProgress& progress = {});

}  // namespace plait
