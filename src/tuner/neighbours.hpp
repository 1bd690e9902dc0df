// Choices that differ from one by a step of one argument, for who looks for a better one nearby: the tuner's model,
// `plait tune` (TEM-10) and calls that adapt (TEM-60). Whether each can be made is not checked.
#pragma once

#include <vector>

#include "tuner/choice.hpp"

namespace plait {

// Plans of more operations take longer to make, cost and prove than a step is worth.
inline constexpr int kMostVariedOperations = 100'000;

// Twice and half as many parts, and the other direction, as far as the algorithm uses them.
std::vector<PlanChoice> variations_of(const PlanChoice& choice);

// What only a measurement tells: a path that gets twice or half of its share of every message, or a twentieth of the
// message more or less (TEM-09); the variations; twice and half as many parts of one level.
std::vector<PlanChoice> neighbours_of(const PlanChoice& choice);

}  // namespace plait
