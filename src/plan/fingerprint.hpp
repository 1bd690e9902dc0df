// A number that stands for a plan: ranks that were given plans compare it, and people read it in messages.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.hpp"

namespace plait {

// Of everything in the plan, its name included: equal for equal plans, in every process; others differ, but for one in
// 2^64. Never 0.
uint64_t fingerprint(const Plan& plan);

// "00c5a1f3902b7e64"
std::string fingerprint_text(uint64_t fingerprint);

}  // namespace plait
