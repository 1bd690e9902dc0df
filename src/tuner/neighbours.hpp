// Choices that differ from one by a step of one argument, for who looks for a better one nearby: `plait tune` (TEM-10)
// and calls that adapt (TEM-60).
#pragma once

#include <vector>

#include "tuner/choice.hpp"

namespace plait {

// A path that gets twice or half of its share of every message, or a twentieth of the message more or less (TEM-09);
// twice or half as many parts, of the message or of one level; the other direction. Whether each can be made is not
// checked.
std::vector<PlanChoice> neighbours_of(const PlanChoice& choice);

}  // namespace plait
