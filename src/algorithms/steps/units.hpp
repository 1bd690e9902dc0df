// The ranks that work together on each level of a hierarchy.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/tree.hpp"

namespace plait {

// More than any plan may have, and still a number when multiplied by any number of parts.
inline constexpr int64_t kTooManyChunks = int64_t{1} << 31;

// The units of one level that work together: each is a list of ranks, its leader first.
using Units = std::vector<std::vector<int>>;

// The blocks of units of each level, the innermost first: [level][block] are the units that this level joins. If the
// collective has a root, it leads its unit, which comes first in its block. Throws kInvalidArgument, naming the
// algorithm and the level, if units do not fit into a group or node, or if the last level leaves more than one.
std::vector<std::vector<Units>> blocks_of(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                                          const std::vector<Level>& levels);

// Into how many pieces a reduce by these levels divides the message, so that each piece goes along one tree of each
// level; no more than kTooManyChunks.
int64_t pieces_of_trees(const std::vector<Level>& levels, const std::vector<std::vector<Units>>& blocks);
// The tree of each piece, along which it comes from the root to all ranks, or from them (AWA-11). The last level's
// trees join the leaders of its units, and so on down to the first level. So every unit is entered once. The levels
// must serve a reduce.
std::vector<Tree> trees_over(const AlgorithmArguments& arguments, const std::vector<Level>& levels,
                             const std::vector<std::vector<Units>>& blocks);
// The same where there is one: levels of one tree each.
Tree tree_over(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels);

}  // namespace plait
