// verify() checks the form first, then executes symbolically.
#include "plan/verifier.hpp"

#include <utility>

#include "plan/execution.hpp"
#include "plan/form.hpp"
#include "plan/proof_size.hpp"

namespace plait {

VerifiedPlan verify(Plan plan) {
  const Pairing pairing = check_form(plan);
  PlanReport report = execute_symbolically(plan, pairing, most_clocks(plan));
  return VerifiedPlan(std::move(plan), std::move(report));
}

}  // namespace plait
