// The symbolic execution behind verify().
#pragma once

#include "plan/form.hpp"
#include "plan/verifier.hpp"

namespace plait {

// Executes a plan whose form is right, with input and output apart or in the same memory. Throws kInvalidPlan at the
// first fault; returns what it learned.
PlanReport execute_symbolically(const Plan& plan, const Pairing& pairing, bool in_place);

}  // namespace plait
