// A plan for a machine, and the choices for messages of every size, as `plait plan` shows them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "plan/conditions.hpp"
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
  // What the plan needs and kernels lack, where ranks are on GPUs; else empty. Ranks on CPUs run the plan.
  std::string lacking_on_gpus;
  bool is_staged = false;  // so CPUs perform it for these GPUs, staged in host memory, since the user insists on it
  std::string on_gpus;     // the plan that GPUs run in its place, if there is one
};

// The plan that a request is about.
struct MachineChoice {
  std::shared_ptr<Tuner> tuner;  // that chose
  Choice choice;
  bool is_asked_for = false;  // by its name
};

// The all-reduce of rings within nodes and racks, and rings of these, as `--algorithm` names it. Its levels have few
// units, so it has few operations, and it looks alike from all nodes.
std::string levels_of_rings(const RankMachine& machine);

struct MachinePlan {
  std::shared_ptr<Tuner> tuner;              // that chose
  std::shared_ptr<const VerifiedPlan> plan;  // never null
  Choice choice;
  bool is_asked_for = false;  // by its name
  // The choices of a communicator of these ranks, for float32. Empty if a plan was asked for.
  std::vector<PlannedRange> ranges;

  const RankMachine& machine() const { return tuner->machine(); }
  std::string reason() const { return choice.reason(); }  // one sentence
  // Plans that the model did not try. Empty if it was not asked.
  std::vector<LeftOut> left_out() const;
  // The launch on GPUs: "62 channels, 62 CTAs of 512 threads, Simple". Empty if they do not run it, or if a plan was
  // asked for.
  std::string launch() const;
  // tuner/explain.hpp; 0 bytes: a long message.
  std::string explain(size_t message_bytes = 0, const TunerProgress& progress = {}) const;
  // The ranges as a table, with notes below it, a sentence a line.
  std::string table() const;
  std::string notes() const;
};

// Places the ranks, and chooses what a communicator of them runs for the request's bytes, unless that names an
// algorithm; nothing is proved that is asked for by its name. Throws what plan_for_machine() does, but of the plan.
// There may be `most_ranks` ranks; of more than kMaxRanks nothing is compared, and rings of rings are taken.
MachineChoice choose_for_machine(const Topology& topology, const MachinePlanRequest& request, const Settings& settings,
                                 const TunerProgress& progress = {}, int most_ranks = kMaxRanks);
// Places the ranks, chooses as a communicator of them would (`settings`: algorithm, launch, max_sms and peer_memory
// count), and verifies. Throws kInvalidArgument where a machine without GPUs is given no number of ranks, where what is
// asked for is not what an algorithm uses, and as place_ranks and make_plan do.
MachinePlan plan_for_machine(const Topology& topology, const MachinePlanRequest& request, const Settings& settings,
                             const TunerProgress& progress = {});

}  // namespace plait
