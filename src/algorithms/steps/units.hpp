// The ranks that work together on each level of a hierarchy.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/tree.hpp"

namespace plait {

// The units of one level that work together: each is a list of ranks, its leader first.
using Units = std::vector<std::vector<int>>;

// The blocks of units of each level, the innermost first: [level][block] are the units that this level joins. If the
// collective has a root, it leads its unit, which comes first in its block. Throws kInvalidArgument, naming the
// algorithm and the level, if units do not fit into a group or node, or if the last level leaves more than one.
std::vector<std::vector<Units>> blocks_of(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                                          const std::vector<Level>& levels);

// The tree along which a message comes from the root to all ranks (AWA-11). The last level's trees join the leaders of
// its units, and so on down to the first level. So every unit is entered once. Every level's algorithm must have a
// tree.
Tree tree_over(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels);

}  // namespace plait
