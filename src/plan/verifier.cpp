// verify() checks the form first, then executes symbolically.
#include "plan/verifier.hpp"

#include <utility>

#include "plan/execution.hpp"
#include "plan/fingerprint.hpp"
#include "plan/form.hpp"
#include "plan/proof_size.hpp"

namespace plait {

VerifiedPlan::VerifiedPlan(Plan plan, PlanReport report)
    : plan_(std::move(plan)), report_(std::move(report)), fingerprint_(plait::fingerprint(plan_)) {}

VerifiedPlan verify(Plan plan) {
  const Pairing pairing = check_form(plan);
  PlanReport report = execute_symbolically(plan, pairing, most_clock_bytes(plan));
  return VerifiedPlan(std::move(plan), std::move(report));
}

}  // namespace plait
