// Ways to one rank from all others that share the links of the machine's graph.
#pragma once

#include <vector>

#include "algorithms/steps/packing.hpp"

namespace plait {

// As many ways from every rank to the root, lists of ranks, each for its share of that rank's block: a gather, or
// backwards a scatter. Those of rank 0 come first, then those of rank 1, and so on; the root has none. Their bandwidth
// is that of all blocks together, the most that links allow: a maximum flow, whose bound is the least, over all parts
// of the ranks without the root, of the bandwidth out of the part by its number of blocks (Ford and Fulkerson).
//
// `most`: ways from each rank; 0: as many as help.
Packing<std::vector<int>> pack_ways_to(int root, int ranks, const std::vector<DeviceLink>& links, int most);

}  // namespace plait
