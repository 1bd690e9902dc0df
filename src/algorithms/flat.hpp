// Plans by direction, for the algorithms that have several.
#pragma once

#include "algorithms/algorithm.hpp"

namespace plait {

// Arguments are checked and on one node; `algorithm` is the one that the plans are made for.

// Of `flat`, for algorithms that are flat where there is one group only: by load, or zero-copy.
Plan flat_all_reduce(const Algorithm& algorithm, const AlgorithmArguments& arguments);
Plan flat_by_store(const Algorithm& algorithm, const AlgorithmArguments& arguments);
Plan flat_by_zero_copy_load(const Algorithm& algorithm, const AlgorithmArguments& arguments);
inline constexpr int kPartsOfBoth = 4;  // of which one is loaded, where the arguments leave it at 1
Plan flat_by_both(const Algorithm& algorithm, const AlgorithmArguments& arguments);
Plan one_shot_by_store(const Algorithm& algorithm, const AlgorithmArguments& arguments);
Plan chain_by_store(const Algorithm& algorithm, const AlgorithmArguments& arguments);

}  // namespace plait
