// Composes the levels of a hierarchy into one plan. `hierarchical` is this for any levels that a user writes; named
// hierarchies are this for theirs.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// Of a rank, on which parts of the message go in turn: what GPUs perform.
inline constexpr int kMostQueuesOfParts = 3;

// Makes the plan of an all_reduce, reduce_scatter, all_gather, broadcast or reduce; levels come the innermost first. An
// all_reduce goes up, level by level, and down again; a reduce_scatter up, and an all_gather down:
//
//     level 1          reduce_scatter                                             all_gather
//     level 2                         reduce_scatter                 all_gather
//     level 3                                         all_reduce
//
// The message goes in `parts` parts, on up to three queues of a rank in turn, so that levels work at the same time
// (TEM-14). A broadcast and a reduce go one way only, from or to a root (rooted_composition.hpp).
Plan compose(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels,
             int parts);

}  // namespace plait
