// The blocks of reduce_scatter and all_gather as shares of a hierarchy's levels.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/units.hpp"

namespace plait {

// Levels cut the message into shares of shares, and a rank's block has to be the share that it ends up with. Which one
// that is, by rank: 6 ranks and hierarchical(2: flat, 3: ring), whose first level halves the message, and whose second
// one cuts each half in three,
//
//     half 0: ranks 0 2 4     half 1: ranks 1 3 5     shares: {0, 3, 1, 4, 2, 5}
//
// Throws kInvalidArgument, naming the algorithm and the level, if shares are not all of one size.
std::vector<int> shares_of_ranks(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                                 const std::vector<Level>& levels, const std::vector<std::vector<Units>>& blocks);

// The chunks of the message in the order of the shares, part after part: of each part, `chunks` chunks of every share.
std::vector<int> chunks_by_share(const std::vector<int>& share_of_rank, int chunks, int parts);

}  // namespace plait
