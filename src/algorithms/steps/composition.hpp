// Composes the levels of a hierarchy into one plan. `hierarchical` is this for any levels that a user writes; named
// hierarchies are this for theirs.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// The units of one level that work together: each is a list of ranks.
using Units = std::vector<std::vector<int>>;

// The blocks of units of each level, the innermost first: [level][block] are the units that this level joins. Throws
// kInvalidArgument, naming the algorithm and the level, if units do not fit into a group or node, or if the last level
// leaves more than one.
std::vector<std::vector<Units>> blocks_of(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                                          const std::vector<Level>& levels);

// Makes the plan of an all_reduce, broadcast or reduce, the innermost level first. An all_reduce goes up, level by
// level, and down again:
//
//     level 1          reduce_scatter                                             all_gather
//     level 2                         reduce_scatter                 all_gather
//     level 3                                         all_reduce
//
// The message goes in `parts` parts, on up to three queues of a rank in turn, so that levels work at the same time
// (TEM-14). A broadcast goes from the root's unit to the others on the last level, and so on to the first, along trees;
// a reduce goes the other way. Their parts follow one another.
Plan compose(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels,
             int parts);

}  // namespace plait
