// Explains the load of a plan on the links of a machine.
#pragma once

#include <string>

#include "model/placement.hpp"
#include "plan/verifier.hpp"
#include "topology/topology.hpp"

namespace plait {

// Prints the plan's steps, the busiest link and the bound, also in seconds if `message_bytes` is not 0. Each kind of
// link and each link follows with its bytes for each byte of the message, and its time as a share of the busiest one's.
// Unused links come last.
std::string explain_links(const VerifiedPlan& plan, const Topology& topology, const Placement& placement,
                          double message_bytes = 0);

}  // namespace plait
