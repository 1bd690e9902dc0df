// verify(): the form first, then one symbolic execution for each way the buffers may lie.
#include "plan/verifier.hpp"

#include <utility>

#include "plan/execution.hpp"
#include "plan/fault.hpp"
#include "plan/form.hpp"

namespace plait {
namespace {

// A plan is lowered once, from the facts of the execution with buffers apart, so they must hold in place as well.
void check_same_facts(const Plan& plan, const PlanReport& apart, const PlanReport& in_place) {
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    for (size_t lane = 0; lane < apart.facts[rank].size(); ++lane) {
      for (size_t i = 0; i < apart.facts[rank][lane].size(); ++i) {
        if (apart.facts[rank][lane][i] == in_place.facts[rank][lane][i]) continue;
        refuse_operation(plan, true, {rank, static_cast<int>(lane), static_cast<int>(i)},
                         "works at another stage of the reduction than where input and output are apart");
      }
    }
  }
}

}  // namespace

VerifiedPlan verify(Plan plan) {
  const Pairing pairing = check_form(plan);
  PlanReport report = execute_symbolically(plan, pairing, false);
  if (plan.in_place) check_same_facts(plan, report, execute_symbolically(plan, pairing, true));
  return VerifiedPlan(std::move(plan), std::move(report));
}

}  // namespace plait
