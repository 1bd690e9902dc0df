// The descriptor of each algorithm, one a file, for the registry.
#pragma once

#include "algorithms/algorithm.hpp"

namespace plait {

Algorithm binomial();
Algorithm chain();
Algorithm flat();
Algorithm hierarchical_ring();
Algorithm nvgroup_ring();
Algorithm one_shot();
Algorithm recursive_doubling();
Algorithm ring();
Algorithm three_stage();

}  // namespace plait
