// Describes plans in a few words, for the command line.
#pragma once

#include <cstddef>
#include <string>

#include "plan/verifier.hpp"

namespace plait {

// Four lines: steps, the amounts that ranks read, write, send and receive, and the busiest pair of ranks. Amounts are
// multiples of the message S, and bytes as well if `message_bytes` is not 0.
std::string summarize(const VerifiedPlan& plan, size_t message_bytes = 0);

}  // namespace plait
