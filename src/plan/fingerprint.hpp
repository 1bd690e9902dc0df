// A number that stands for a plan: ranks that were given plans compare it, and people read it in messages.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.hpp"

namespace plait {

// A hash of everything in the plan, its name included. Equal plans have the same in every process. Two other plans
// share one by a chance of 2^-64. Never 0.
uint64_t fingerprint(const Plan& plan);

// "00c5a1f3902b7e64"
std::string fingerprint_text(uint64_t fingerprint);

}  // namespace plait
