// The levels of the machine at hand.
#pragma once

#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// The groups, the nodes, or all ranks, as lists of ranks.
std::vector<std::vector<int>> ranks_within(const AlgorithmArguments& machine, Reach reach);
// How far each level of the machine reaches: groups, nodes and all ranks, as far as each joins anything. Groups count
// if each of them lies on one node.
std::vector<Reach> machine_reaches(const AlgorithmArguments& machine);
// Whether every group, or node, has as many ranks as any other.
bool is_even(const AlgorithmArguments& machine, Reach reach);

// The levels of the machine, the last with the algorithm `outer`, the others with `inner`.
std::vector<Level> machine_levels(const AlgorithmArguments& machine, std::string_view inner, std::string_view outer);
// All-reduce: flat exchanges in groups and nodes, a ring on top. Where groups or nodes differ in size, their first
// ranks lead. Broadcast and reduce: chains, and a binomial tree on top.
std::vector<Level> usual_levels(const AlgorithmArguments& machine);
// GPUs store, CPUs load, zero-copy trees do what they can; and levels with that where their direction is open.
Direction best_direction(const AlgorithmArguments& machine);
std::vector<Level> with_directions(std::vector<Level> levels, const AlgorithmArguments& machine);

}  // namespace plait
