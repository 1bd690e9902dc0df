// Spanning trees of the machine's graph that share its links: rooted ones, and ones that are used both ways.
#pragma once

#include <vector>

#include "algorithms/steps/packing.hpp"
#include "algorithms/steps/tree.hpp"

namespace plait {

// Trees that are used up and down at once, as an all_reduce does, so that a tree takes both directions of its links.
// Nash-Williams and Tutte bound their bandwidth: a partition of the ranks into k parts allows the bandwidth between the
// parts over k - 1, and the least of these counts (BLK-21). The trees reach it where 24 equal trees can, else a few
// percent less. Roots are in the middle of their trees.
//
// `most`: trees; 0: as many as help. One that is more than links have room for is no error: the trees share links.
Packing<Tree> pack_spanning_trees(int ranks, const std::vector<DeviceLink>& links, int most);

// Trees that are used one way, from the root down: a broadcast, or against the arrows a reduction. Their bandwidth is
// the bound of Edmonds: the least of the maximum flows from the root to another rank (BLK-03).
Packing<Tree> pack_trees_from(int root, int ranks, const std::vector<DeviceLink>& links, int most);

// Packs equally many trees from each rank, each for its share of that rank's block: an all_gather, or against the
// arrows a reduce_scatter. They lie rank by rank. The bandwidth is that of all blocks together.
Packing<Tree> pack_trees_from_all(int ranks, const std::vector<DeviceLink>& links, int most);

}  // namespace plait
