// Rewrites a plan over several nodes for one node: messages become stores, so that described machines can be tried
// here.
#pragma once

#include "plan/plan.hpp"

namespace plait {

// Returns the plan with all ranks on one node. A send becomes a store into an inbox of the receiver (scratch that
// nothing else uses), followed by a signal. A receive becomes a wait and a copy out of the inbox. So the same values
// are combined in the same order as before. Queues of the network become queues of the CPU.
Plan on_one_node(const Plan& plan);

}  // namespace plait
