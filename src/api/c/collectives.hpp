// The common part of the files of collectives: an operation's number, and how a call is issued.
#pragma once

#include "api/c/group.hpp"
#include "base/reductions.hpp"

namespace plait::c {

// Refuses a number that is no operation. One that a user made is a sum.
ReduceOp reduce_op(plaitRedOp_t op);

// Checks a call, and issues or notes it. `op` is that of the arguments, where they have one.
void issue_collective(CollectiveCall call, plaitRedOp_t op);

}  // namespace plait::c
