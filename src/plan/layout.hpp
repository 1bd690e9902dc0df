// The earliest time of each operation in a plan, counted in rows, for pictures.
//
// A row holds at most one reduce, send or receive of each queue. Signals run in the gaps between rows: gap g is above
// row g. The operations of a queue after a wait are below the gap in which the signal comes.
#pragma once

#include <vector>

#include "plan/form.hpp"
#include "plan/plan.hpp"

namespace plait {

struct PlanLayout {
  Pairing pairing;
  int rows = 0;
  int gaps = 0;  // at least as many as rows
  // [rank][queue][operation]: the row of a reduce, send or receive; the gap of a signal or wait. The gap of a wait is
  // the one that the queue has reached when it goes on.
  std::vector<std::vector<std::vector<int>>> position;

  int at(const OperationId& id) const { return position[id.rank][id.queue][id.operation]; }
};

// Throws kInvalidPlan if the form of the plan is wrong or its queues wait for ever.
PlanLayout lay_out(const Plan& plan);

}  // namespace plait
