// Describes plans in a few words, for the command line.
#pragma once

#include <cstddef>
#include <string>

#include "plan/node_shifts.hpp"
#include "plan/verifier.hpp"

namespace plait {

// Four lines: steps, the amounts that ranks read, write, send and receive, and the busiest pair of ranks. Amounts are
// multiples of the message S, and bytes as well if `message_bytes` is not 0.
std::string summarize(const VerifiedPlan& plan, size_t message_bytes = 0);
// The same of a whole plan of which the operations of those ranks are there that stand for all under the shifts, and
// counted in the report.
std::string summarize_alike(const Plan& plan, const PlanReport& report, size_t message_bytes, const NodeShifts& shifts);

}  // namespace plait
