// The all-reduce of `flat`, for algorithms that are flat where there is one group only.
#pragma once

#include <string>

#include "algorithms/algorithm.hpp"

namespace plait {

// Arguments are checked and on one node.
Plan flat_all_reduce(const AlgorithmArguments& arguments, std::string label);

}  // namespace plait
