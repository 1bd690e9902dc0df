// The form of a plan: all that can be checked without executing it.
#pragma once

#include <vector>

#include "plan/fault.hpp"
#include "plan/plan.hpp"

namespace plait {

// The two ends of a signal (signal, wait) or of a message (send, receive).
struct Pair {
  OperationId from;
  OperationId to;
};

// [receiving rank][number]
struct Pairing {
  std::vector<std::vector<Pair>> signals;
  std::vector<std::vector<Pair>> messages;
};

// Checks that
// - the shape is the collective's, counts are sensible, and the proof is not too large;
// - every place is in bounds, the plan's access allows it, and no input is stored to;
// - every operation is one that its engine can perform, and its places do not overlap in part;
// - every signal and message has exactly one sender and one receiver, which name each other and the same chunks.
// Throws kInvalidPlan (PlanTooLarge, proof_size.hpp). Returns the pairs of sender and receiver.
Pairing check_form(const Plan& plan);
// The same for a plan that nobody is going to prove: it may be too large for that.
Pairing check_form_of_any_size(const Plan& plan);
// The same for the operations of a folded plan, but for its pairs, which the fold has found (fold.hpp).
void check_folded_form(const Plan& plan);

}  // namespace plait
