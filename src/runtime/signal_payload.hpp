// Flag inside the data: decides which plans may send their data in the cache lines of their signals.
#pragma once

#include "plan/plan.hpp"

namespace plait {

// True if every rank publishes one chunk in its own scratch, once, before it signals any rank, and reads a rank's
// scratch only after that rank has signalled it. Then the data can travel with the signal: whoever sees one sees the
// other.
bool publishes_once(const Plan& plan);

// Number of the signal of `rank` that `peer` sends, or -1 if it sends none.
int signal_from(const Plan& plan, int rank, int peer);

}  // namespace plait
