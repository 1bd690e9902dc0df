// verify() checks the form first, then executes symbolically.
#include "plan/verifier.hpp"

#include <algorithm>
#include <utility>

#include "plan/execution.hpp"
#include "plan/fingerprint.hpp"
#include "plan/form.hpp"
#include "plan/proof_size.hpp"

namespace plait {

namespace {

bool stores_partial_results(const PlanReport& report) {
  for (const auto& queues : report.facts) {
    for (const auto& operations : queues) {
      if (std::ranges::any_of(operations, &ReduceFacts::result_is_partial)) return true;
    }
  }
  return false;
}

}  // namespace

VerifiedPlan::VerifiedPlan(Plan plan, PlanReport report)
    : plan_(std::move(plan)), report_(std::move(report)), fingerprint_(plait::fingerprint(plan_)) {}

bool VerifiedPlan::can_carry_flags(DataType type) const {
  return report_.shape.can_carry_flags && !(report_.stores_partial_results && accumulates_in_float32(type));
}

VerifiedPlan verify(Plan plan) {
  const Pairing pairing = check_form(plan);
  PlanReport report = execute_symbolically(plan, pairing, most_clock_bytes(plan));
  report.shape = shape_of(plan);
  report.stores_partial_results = stores_partial_results(report);
  return VerifiedPlan(std::move(plan), std::move(report));
}

}  // namespace plait
