// When, at the earliest, things happen in a plan, counted in rows: for pictures.
//
// A row holds at most one reduce, send or receive of each queue. Signals run in the gaps between rows: gap g is above
// row g. What a queue does after a wait is below the gap in which the signal came.
#pragma once

#include <vector>

#include "plan/form.hpp"
#include "plan/plan.hpp"

namespace plait {

struct PlanLayout {
  Pairing pairing;
  int rows = 0;
  int gaps = 0;  // at least rows
  // [rank][queue][operation]: the row of reduces, sends and receives; the gap of signals and waits. The gap of a wait
  // is the one that the queue has reached when it goes on.
  std::vector<std::vector<std::vector<int>>> position;

  int at(const OperationId& id) const { return position[id.rank][id.queue][id.operation]; }
};

// Throws kInvalidPlan where the form of the plan is wrong or its queues wait for ever.
PlanLayout lay_out(const Plan& plan);

}  // namespace plait
