// The paths between ranks on GPUs, for algorithms that divide messages among them (TEM-03).
#pragma once

#include <optional>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "model/placement.hpp"
#include "topology/topology.hpp"

namespace plait {

// The paths from every rank to every other of its host: the direct one, where there is one, and those through host
// memory and through another rank's GPU that share no link with it. In a ring of all ranks, GPUs on one PCIe switch
// share its link to the CPU. Algorithms count how hops share relays' links.
//
// Not known where ranks share a GPU or are on CPUs, and over more than kMostLinkedRanks.
std::optional<std::vector<RankPath>> paths_between_ranks(const Topology& topology, const Placement& placement);

}  // namespace plait
