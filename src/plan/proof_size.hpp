// Estimates the cost of a plan's proof before the proof is tried, because plans come from anybody.
#pragma once

#include <cstddef>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace plait {

// The most memory that a proof may take. A plan that would take more is refused: it has more ranks than can be proved,
// or it is a mistake or an attack.
inline constexpr double kMaxProofBytes = 4e9;
// The most bytes of clocks that may be merged. That takes some tens of seconds.
inline constexpr double kMaxMergedBytes = 2e11;
// The most accesses to chunks in places. They also take some tens of seconds.
inline constexpr double kMaxAccesses = 1e9;

// The error for a plan that may be right, but is too large to prove (kInvalidPlan) or even to build (kInvalidArgument).
class PlanTooLarge : public Error {
 public:
  using Error::Error;
};

struct ProofSize {
  double bytes = 0;         // an upper bound on all memory but the clocks
  double clock_bytes = 0;   // of one clock
  double clocks = 0;        // the most that queues hold; signals and messages under way may hold more
  double merged_bytes = 0;  // an upper bound
  double accesses = 0;      // to one chunk in one place, for both ways in which the buffers may lie
};

// The places, counts and peers of `plan` must be in bounds.
ProofSize proof_size(const Plan& plan);
// Throws PlanTooLarge if the proof does not fit even without signals and messages under way.
void check_proof_size(const Plan& plan);
// Returns how many clocks fit, including those of signals and messages under way.
size_t most_clocks(const Plan& plan);
// Throws PlanTooLarge about a proof that needs `clocks` clocks.
[[noreturn]] void refuse_clocks(const Plan& plan, size_t clocks);
// Returns the most symbolic values that there can be.
double most_values(const Plan& plan);

}  // namespace plait
