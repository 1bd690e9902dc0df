// Checks whether the ranks of a communicator can run a plan of the caller's own.
#pragma once

#include "plan/verifier.hpp"
#include "tuner/candidates.hpp"

namespace plait {

// Throws kInvalidArgument if the plan is for another number of ranks, or exceeds `limits`, which are the limits of
// these ranks. The answer is the same on all ranks.
void check_given(const VerifiedPlan& plan, int ranks, const PlanLimits& limits, bool on_gpus);

// Throws kInvalidArgument if a call names a plan of another collective or root.
void check_same_collective(const Plan& plan, Collective collective, int root);

}  // namespace plait
