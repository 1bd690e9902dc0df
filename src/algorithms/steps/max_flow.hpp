// Ways to one rank from all others that share the links of the machine's graph.
#pragma once

#include <vector>

#include "algorithms/steps/packing.hpp"

namespace plait {

// Packs equally many ways from every rank to the root, each for its share of that rank's block: a gather, or backwards
// a scatter. A way is a list of ranks. Those of rank 0 come first, then those of rank 1, and so on; the root has none.
// Their bandwidth is that of all blocks together, and the most that links allow: a maximum flow (Ford and Fulkerson).
// Each part of the ranks without the root bounds it, by the bandwidth out of the part over its number of blocks.
//
// `most`: ways from each rank; 0: as many as help.
Packing<std::vector<int>> pack_ways_to(int root, int ranks, const std::vector<DeviceLink>& links, int most);

}  // namespace plait
