// Plans of a caller's own: which of them the ranks of a communicator can run.
#pragma once

#include "plan/verifier.hpp"
#include "tuner/candidates.hpp"

namespace plait {

// Throws kInvalidArgument where the plan is for another number of ranks, or needs what these lack: `limits` are theirs.
// The same on all ranks.
void check_given(const VerifiedPlan& plan, int ranks, const PlanLimits& limits, bool on_gpus);

// Throws kInvalidArgument where a call of this collective and root names a plan of others.
void check_same_collective(const Plan& plan, Collective collective, int root);

}  // namespace plait
