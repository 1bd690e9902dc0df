// The symbolic execution behind verify().
#pragma once

#include <cstddef>

#include "plan/form.hpp"
#include "plan/verifier.hpp"

namespace plait {

// Executes a plan whose form is right, with input and output apart and, if the plan claims so, in the same memory.
// Throws kInvalidPlan at the first fault, and where more clocks would have to be held at a time than `most_clocks`;
// returns what it learned.
PlanReport execute_symbolically(const Plan& plan, const Pairing& pairing, size_t most_clocks);

}  // namespace plait
