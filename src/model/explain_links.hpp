// What a plan does to the links of a machine.
#pragma once

#include <string>

#include "model/placement.hpp"
#include "plan/verifier.hpp"
#include "topology/topology.hpp"

namespace plait {

// Its steps; the busiest link and the least time, also in seconds where `message_bytes` is not 0; each kind of link and
// each link with its bytes for each byte of the message and its time as a share of the busiest one's; unused links.
std::string explain_links(const VerifiedPlan& plan, const Topology& topology, const Placement& placement,
                          double message_bytes = 0);

}  // namespace plait
