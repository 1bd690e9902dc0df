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

// Upper bounds.
struct ProofSize {
  double bytes = 0;         // of all memory but the clocks
  double merged_bytes = 0;  // of clocks, if they share nothing
  double accesses = 0;      // to one chunk in one place, for both ways in which the buffers may lie
};

// The places, counts and peers of `plan` must be in bounds.
ProofSize proof_size(const Plan& plan);
// Throws PlanTooLarge if the proof does not fit even without clocks.
void check_proof_size(const Plan& plan);
// Throws PlanTooLarge about a proof that would take so many bytes.
[[noreturn]] void refuse_proof_bytes(const Plan& plan, double bytes);
// Returns the bytes that are left for clocks, including those of signals and messages under way. How much they share
// shows only when the plan is executed.
size_t most_clock_bytes(const Plan& plan);
// Throws PlanTooLarge about a proof whose clocks take more than that.
[[noreturn]] void refuse_clocks(const Plan& plan);
// Returns the most symbolic values that there can be.
double most_values(const Plan& plan);

}  // namespace plait
