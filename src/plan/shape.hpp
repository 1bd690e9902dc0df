// Facts about the form of a plan that decide which launches can perform it.
#pragma once

#include "plan/plan.hpp"

namespace plait {

struct PlanShape {
  int queues = 1;                // the most of any rank
  bool has_one_queue = false;    // every rank has one
  bool can_carry_flags = false;  // LL and LL128 can perform it, for some types: VerifiedPlan::can_carry_flags()
};

// The plan need not be proved; verify() puts it into the report.
PlanShape shape_of(const Plan& plan);

}  // namespace plait
