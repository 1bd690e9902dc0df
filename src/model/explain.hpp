// Why this plan: what `plait plan --explain` prints.
#pragma once

#include <string>

#include "model/placement.hpp"
#include "plan/verifier.hpp"
#include "topology/topology.hpp"

namespace plait {

// What a plan that `algorithm` made from `arguments` does to the links of the machine: steps; the busiest link and the
// least time, also in seconds where `message_bytes` is not 0; each kind of link and each link with its bytes for each
// byte of the message and its time as a share of the busiest one's; unused links; every other algorithm that serves the
// collective here, with its bound and its steps; and in one sentence what speaks for the one chosen or for another.
std::string explain(const VerifiedPlan& plan, const Topology& topology, const Placement& placement,
                    const AlgorithmArguments& arguments, double message_bytes = 0);

}  // namespace plait
