// The symbolic execution behind verify().
#pragma once

#include <cstddef>

#include "plan/fold.hpp"
#include "plan/fold_action.hpp"
#include "plan/form.hpp"
#include "plan/verifier.hpp"

namespace plait {

// Executes a plan whose form is right, with input and output in separate memory and, if the plan claims to allow that,
// in the same memory. Returns what it learned. Throws kInvalidPlan at the first fault, and PlanTooLarge if clocks take
// more than `most_clock_bytes`.
PlanReport execute_symbolically(const Plan& plan, const Pairing& pairing, size_t most_clock_bytes);
// Executes the ranks that stand for all, each step of theirs standing for that of all others. The plan has to be
// invariant under the action. Counts of traffic and shape are not in the report.
PlanReport execute_symbolically(const FoldedPlan& folded, const FoldAction& action, size_t most_clock_bytes);

}  // namespace plait
