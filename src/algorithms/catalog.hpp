// The descriptor of each algorithm, one a file, for the registry.
#pragma once

#include "algorithms/algorithm.hpp"

namespace plait {

Algorithm binomial();
Algorithm chain();
Algorithm chain_push();
Algorithm flat();
Algorithm hierarchical_ring();
Algorithm nvgroup_ring();
Algorithm one_shot();
Algorithm one_shot_push();
Algorithm pull();
Algorithm push();
Algorithm push_pull();
Algorithm recursive_doubling();
Algorithm ring();
Algorithm three_stage();

}  // namespace plait
