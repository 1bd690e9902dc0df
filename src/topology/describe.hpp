// A machine as text for people, which `plait topo` prints.
#pragma once

#include <string>
#include <vector>

#include "topology/groups.hpp"
#include "topology/topology.hpp"

namespace plait {

// A line about the whole machine, then devices and links, with equal ones in one row. For 2 to 16 GPUs, also the best
// path between every two: "nvlink 50" and "pcie 16" are direct; "host 16", "relay 25" and "net 12.5" are not.
// Bandwidths are in 10^9 bytes/s per direction. Ends with a newline. printable(), whatever models and sources hold.
std::string to_text(const Topology& topology);

// One line per group: "group 0: gpu0 gpu1 gpu2 cpu0".
std::string to_text(const Topology& topology, const std::vector<Group>& groups);

}  // namespace plait
