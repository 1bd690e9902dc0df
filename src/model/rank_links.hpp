// The machine's graph as its ranks see it, for algorithms that search it.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"
#include "model/placement.hpp"
#include "topology/topology.hpp"

namespace plait {

// What joins ranks on GPUs: all NVLink and xGMI links that lead from one GPU to the other. Where these fall apart into
// several parts, as over nodes, the parts are joined two by two: the first rank of one with the first of the other, the
// second with the second, and so on, by the path that data takes between them, through host memory or NICs. Of a link
// that several of these pairs cross, each has its share.
//
// None where no two GPUs of the machine have such a link (an NVSwitch or PCIe switch joins them, and a ring reaches
// what links allow), where ranks share a GPU or are on CPUs, and over more than kMostLinkedRanks.
std::vector<DeviceLink> links_between_ranks(const Topology& topology, const Placement& placement);

}  // namespace plait
