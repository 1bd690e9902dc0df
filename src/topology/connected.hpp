// Whether data gets from every rank to every other, over one path (paths.hpp) or over several, from rank to rank.
#pragma once

#include <optional>
#include <vector>

#include "topology/topology.hpp"

namespace plait {

// `devices` are those of the ranks, in order: GPUs or CPUs of the topology. Returns the first rank to which no data
// gets from rank 0, or nothing if it gets to all. Takes time for each link, not for each pair of ranks.
std::optional<int> find_unconnected(const Topology& topology, const std::vector<int>& devices);

// Throws kInvalidArgument if there is such a rank: names both devices, and what the machine needs.
void check_connected(const Topology& topology, const std::vector<int>& devices);

}  // namespace plait
