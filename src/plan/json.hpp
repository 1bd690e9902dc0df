// Plans as JSON: for files, for other programs and for people who write a plan by hand. Each operation has a line:
//
//   {"plait_plan": 2, "algorithm": "pair", "collective": "broadcast", "access": "staged", "root": 0, "blocks": 1,
//    "chunks_per_block": 1, "in_place": true, "node_of": [0, 0], "ranks": [
//     {"scratch_slots": 0, "host_slots": 0, "signals": 0, "messages": 0, "queues": [
//       {"engine": "cpu", "operations": [
//         {"op": "reduce", "to": ["r0.output", "r1.scratch[0]"], "from": ["r0.input"], "chunk": 0},
//         {"op": "signal", "number": 0, "rank": 1, "queue": 0}]}]},
//     {"scratch_slots": 1, "host_slots": 0, "signals": 1, "messages": 0, "queues": [
//       {"engine": "cpu", "operations": [
//         {"op": "wait", "number": 0, "rank": 0, "queue": 0},
//         {"op": "reduce", "to": ["r1.output"], "from": ["r1.scratch[0]"], "chunk": 0}]}]}]}
//
// "rank" and "queue" are the peer's. "chunk" and "chunks" are the range; "chunks" is 1 if it is left out.
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.hpp"

namespace plait {

inline constexpr int kPlanJsonVersion = 2;

// Writes any plan, right or wrong. The same plan always gives the same text.
std::string to_json(const Plan& plan);
// Reads a plan: plan_from_json(to_json(plan)) == plan. `file` is only used in messages. Throws kInvalidInput,
// `FILE:LINE: expected …, found …`, at the first fault. The plan is not yet verified: pass it to verify().
Plan plan_from_json(std::string_view text, const std::string& file);

}  // namespace plait
