// Flag inside the data: which plans may send their data in the cache lines of their signals.
#pragma once

#include "plan/plan.hpp"

namespace plait {

// True where every rank publishes one chunk in its own scratch, once, before it signals anybody, and reads others'
// scratch only after their own signal to it. Then the data can travel with the signal: whoever sees one sees the other.
bool publishes_once(const Plan& plan);

// The signal of `rank` that `peer` sends; -1 where it sends none.
int signal_from(const Plan& plan, int rank, int peer);

}  // namespace plait
