// Decides which plans can run with the flags inside the data (LL, LL128).
#pragma once

#include "base/types.hpp"
#include "plan/verifier.hpp"

namespace plait {

// Whether every rank of the plan has one queue.
bool every_rank_has_one_queue(const Plan& plan);

// Whether Protocol::kLl and kLines can perform it for a caller's type: every slot of its scratch is written once,
// by one rank, as a whole and in that type, and is read by its owner only; and every result is written once. Then each
// piece of data can carry its own flag, and every signal may be left out, for whatever a wait guards is guarded by the
// flags.
bool can_carry_flags(const VerifiedPlan& plan, DataType type);
// The same for a plan that need not be proved, and for types whose partial sums are as wide as their elements.
bool can_carry_flags(const Plan& plan);

}  // namespace plait
