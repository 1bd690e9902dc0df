// When, at the earliest, things happen in a plan, counted in rows: for pictures.
//
// A row holds at most one fold, send or receive of each lane. Signals run in the gaps between rows: gap g is above row
// g. What a lane does after a wait is below the gap in which the signal came.
#pragma once

#include <vector>

#include "plan/form.hpp"
#include "plan/plan.hpp"

namespace plait {

struct PlanLayout {
  Pairing pairing;
  int rows = 0;
  int gaps = 0;  // at least rows
  // [rank][lane][operation]: the row of folds, sends and receives; the gap of signals and waits. The gap of a wait is
  // the one that the lane has reached when it goes on.
  std::vector<std::vector<std::vector<int>>> position;

  int at(const OperationId& id) const { return position[id.rank][id.lane][id.operation]; }
};

// Throws kInvalidPlan where the form of the plan is wrong or its lanes wait for ever.
PlanLayout lay_out(const Plan& plan);

}  // namespace plait
