// The machine's graph as its ranks see it, for algorithms that search it.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"
#include "model/placement.hpp"
#include "topology/topology.hpp"

namespace plait {

// The links between ranks on GPUs: all NVLink and xGMI links that lead from one GPU to the other. These may fall apart
// into several parts, as over nodes. Then the parts are joined two by two: the first rank of one with the first of the
// other, the second with the second, and so on. Such a pair takes the path that data takes between them, through host
// memory or NICs, and has its share of a link that several pairs cross.
//
// There are none where no two GPUs of the machine have such a link: an NVSwitch or PCIe switch joins them, and a ring
// reaches what links allow. There are none either where ranks share a GPU or are on CPUs, and for more than
// kMostLinkedRanks.
std::vector<DeviceLink> links_between_ranks(const Topology& topology, const Placement& placement);

}  // namespace plait
