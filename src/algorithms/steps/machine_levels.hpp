// The levels of the machine at hand.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// How far each level of the machine reaches: groups, nodes and all ranks, as far as each joins anything. Groups count
// if each of them lies on one node.
std::vector<Reach> machine_reaches(const AlgorithmArguments& machine);
// Whether every group, or node, has as many ranks as any other.
bool is_even(const AlgorithmArguments& machine, Reach reach);

// Flat exchanges in groups and nodes, a ring on top. Where groups or nodes differ in size, their first ranks lead.
std::vector<Level> usual_levels(const AlgorithmArguments& machine);
// Directions that are open: GPUs store, CPUs load.
std::vector<Level> with_directions(std::vector<Level> levels, const AlgorithmArguments& machine);

}  // namespace plait
