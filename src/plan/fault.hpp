// Names the places and operations of a plan, and phrases the refusals of the verifier.
#pragma once

#include <string>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "plan/text.hpp"

namespace plait {

// One operation of one queue of one rank. Queue -1 means the rank's caller.
struct OperationId {
  int rank = -1;
  int queue = -1;
  int operation = -1;

  friend bool operator==(const OperationId&, const OperationId&) = default;
};

// "rank 2 queue 0 operation 5", "the caller of rank 2".
inline std::string to_text(const OperationId& id) {
  if (id.queue < 0) return join("the caller of rank ", id.rank);
  return join("rank ", id.rank, " queue ", id.queue, " operation ", id.operation);
}

inline const Operation& operation_at(const Plan& plan, const OperationId& id) {
  return plan.ranks[id.rank].queues[id.queue].operations[id.operation];
}

// Throws kInvalidPlan about the whole plan, or about a rank of it.
template <class... Parts>
[[noreturn]] void refuse_plan(const Plan& plan, const Parts&... parts) {
  fail(ErrorCode::kInvalidPlan, "plan ", plan.algorithm, " (", name(plan.collective), "): ", parts...);
}

// Throws kInvalidPlan about one operation. `in_place` tells which of the two executions found the fault.
template <class... Parts>
[[noreturn]] void refuse_operation(const Plan& plan, bool in_place, const OperationId& at, const Parts&... parts) {
  fail(ErrorCode::kInvalidPlan, "plan ", plan.algorithm, in_place ? " (in place)" : "", ", rank ", at.rank, ", queue ",
       at.queue, " (", name(plan.ranks[at.rank].queues[at.queue].engine), "), operation ", at.operation, " `",
       to_text(operation_at(plan, at)), "`: ", parts...);
}

}  // namespace plait
