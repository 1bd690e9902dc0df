// Writes plans in words, for people, with one line per operation.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace plait {

// "r2.scratch[3]", "r0.input". A slot is named only if the buffer has slots.
std::string to_text(const Place& place);
// "reduce r2.output <- r2.input + r1.scratch[0] : chunk 5", "signal 3 of r1 queue 0", …
std::string to_text(const Operation& operation);
// Writes the whole plan: a header, then rank by rank and queue by queue.
std::string to_text(const Plan& plan);

}  // namespace plait
