// A plan over several nodes, performed on one: messages become stores, so that described machines can be tried here.
#pragma once

#include "plan/plan.hpp"

namespace plait {

// Whether ranks of the plan are on different nodes, or send each other messages.
bool spans_nodes(const Plan& plan);

// The same plan with all ranks on one node. A message becomes a store into a mailbox of the receiver, scratch that
// nothing else uses, with a signal behind it; its receive a wait and a copy out of the mailbox. So what is combined
// with what, and in which order, stays as it was. Queues of the network become queues of the CPU.
Plan on_one_node(const Plan& plan);

}  // namespace plait
