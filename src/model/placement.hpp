// The device of each rank on a machine, and the arguments of algorithms that follow.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"
#include "topology/groups.hpp"
#include "topology/topology.hpp"

namespace plait {

struct Placement {
  std::vector<int> device_of_rank;  // index into Topology::devices: a GPU or, on machines without, a CPU socket
  std::vector<int> cpu_of_rank;     // the CPU socket whose memory is next to the rank; its own where it is a CPU
};

// Puts ranks on these devices: all GPUs or all CPU sockets, each as often as it has ranks. Throws kInvalidArgument that
// names the device, also where a GPU reaches no CPU (then cpu_of_rank could not be told).
Placement place_ranks(const Topology& topology, std::vector<int> device_of_rank);
// Puts `ranks` ranks on devices in their order: one a GPU, and on several nodes the first GPUs of each, the same
// number. On machines without GPUs they lie in equal blocks over the CPU sockets. Throws kInvalidArgument where there
// are fewer GPUs, or where the ranks cannot be spread evenly over the nodes and are not as many as all GPUs; says what
// would fit.
Placement place_ranks(const Topology& topology, int ranks);

// The arguments that algorithms take from the machine: ranks, engine (sm for GPUs, cpu for CPUs), the node of each
// rank, groups, links and paths between ranks (rank_links.hpp, rank_paths.hpp). Groups are lists of ranks that NVLink
// joins, lowest first (NVG-34); ranks of one GPU are of one group. The access is staged, which works everywhere.
//
// In a plan, a node is where load, store and signals reach. So nodes whose GPUs an NVSwitch outside joins to one group
// (GB200 NVL72) count as one, the lowest of them. Host memory of another of these nodes is still out of reach:
// link_load refuses a plan that wants it.
AlgorithmArguments arguments_for(const Topology& topology, const Placement& placement, Collective collective,
                                 GroupRule rule = GroupRule::kNvGroup);

}  // namespace plait
