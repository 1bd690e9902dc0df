// What the proof of a plan costs, told before it is tried: plans come from anybody.
#pragma once

#include <cstddef>

#include "base/error.hpp"
#include "plan/plan.hpp"

namespace plait {

// The most memory that a proof may take. A plan that would take more is refused: it is for more ranks than can be
// proved, a mistake, or an attack.
inline constexpr double kMaxProofBytes = 4e9;
// The most that clocks may be merged, in bytes: some tens of seconds.
inline constexpr double kMaxMergedBytes = 2e11;
// The most often that chunks may be read from places and written to places: also some tens of seconds.
inline constexpr double kMaxAccesses = 1e9;

// A plan that may be right, but is too large to prove (kInvalidPlan), or even to build (kInvalidArgument).
class PlanTooLarge : public Error {
 public:
  using Error::Error;
};

struct ProofSize {
  double bytes = 0;         // an upper bound of what is held beside clocks
  double clock_bytes = 0;   // of one clock
  double clocks = 0;        // the most that queues hold; signals and messages under way may hold more
  double merged_bytes = 0;  // an upper bound
  double accesses = 0;      // of one chunk in one place, in both ways that the buffers may lie
};

// `plan` has places, counts and peers that are in bounds.
ProofSize proof_size(const Plan& plan);
// Throws PlanTooLarge where even without signals and messages under way the proof does not fit.
void check_proof_size(const Plan& plan);
// How many clocks fit, those of signals and messages under way included.
size_t most_clocks(const Plan& plan);
// Throws PlanTooLarge about a proof that needs so many.
[[noreturn]] void refuse_clocks(const Plan& plan, size_t clocks);
// How many symbolic values there can be.
double most_values(const Plan& plan);

}  // namespace plait
