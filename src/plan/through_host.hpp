// Rewrites a plan so that messages leave from host memory and arrive there, for GPUs whose memory no network reaches.
#pragma once

#include "plan/plan.hpp"

namespace plait {

// Whether all messages of a plan are between host slots, and between nodes.
bool has_messages_in_host(const Plan& plan);

// Returns the plan with all messages between host slots. Scratch that messages leave from or arrive in moves to host
// memory, where the same operations find it: a sum of GPU memory is then stored there (TO-CPU, NVG-46), and what has
// arrived is combined from there (GROUP-BCAST, NVG-48). What leaves from a buffer of the user is copied to a host slot
// before, and what arrives in one is copied out of a host slot. A message within a node becomes a copy into scratch of
// the receiver, a signal, and a copy out of it. The same values are combined in the same order.
Plan through_host(const Plan& plan);

}  // namespace plait
