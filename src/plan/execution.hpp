// The symbolic execution behind verify().
#pragma once

#include <cstddef>

#include "plan/form.hpp"
#include "plan/verifier.hpp"

namespace plait {

// Executes a plan whose form is right, with input and output in separate memory and, if the plan claims to allow that,
// in the same memory. Returns what it learned. Throws kInvalidPlan at the first fault, and PlanTooLarge if clocks take
// more than `most_clock_bytes`.
PlanReport execute_symbolically(const Plan& plan, const Pairing& pairing, size_t most_clock_bytes);

}  // namespace plait
