// Plans that are too large to be held whole: proved by the ranks that stand for all.
#pragma once

#include <cstddef>
#include <string>

#include "api/machine_plan.hpp"
#include "plan/fold.hpp"
#include "plan/verifier.hpp"

namespace plait {

struct ProvedBySymmetry {
  FoldedPlan folded;
  PlanReport report;  // without facts; counts are those of the ranks that are there
  std::string machine;
  int nodes = 1;

  // The lines of summarize() (inspect.hpp), of the whole plan.
  std::string summary(size_t message_bytes) const;
};

// Makes the plan that the request names as plan_for_machine() does, and proves it. No more is kept of it than the
// operations of the ranks that stand for all. Throws NotSymmetric, which is a kInvalidArgument, where no few do, and
// else what plan_for_machine() does.
ProvedBySymmetry prove_by_symmetry(const Topology& topology, const MachinePlanRequest& request,
                                   const Settings& settings, const TunerProgress& progress = {});

}  // namespace plait
