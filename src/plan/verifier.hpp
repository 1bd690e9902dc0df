// Proves a plan right before anything runs it.
//
// The verifier executes the plan symbolically. Each place holds a value: which chunk it is, whose contributions it sums
// up, and the expression that combined them. Happens-before comes from queues, signals and messages (vector clocks).
// Every signal has one sender and one waiter, so one execution stands for all interleavings. A plan passes only if
//   - every output chunk ends with exactly the contributions that the collective demands, each once, combined by the
//     same expression on every rank (so results are equal bit for bit);
//   - nothing is read before it was written, or written while it may be read or written elsewhere; others touch the
//     input and output of a rank only between that rank's call and its return;
//   - every wait is met, every signal and message is awaited, and no queue waits for ever;
//   - all places are in bounds and the plan's access allows them; unfinished reductions stay out of user buffers (their
//     elements may be wider than the user's type);
//   - places of one operation share memory wholly or not at all, and wholly only if their elements have one width;
//   - all of this also holds if input and output share memory, provided that the plan claims so. An input is then read
//     before the output is written over it, and what a GPU would copy onto itself is left out;
//   - the proof fits into memory and ends in good time (proof_size.hpp).
//
// The verifier assumes that a send is over once its source may be overwritten, without waiting for its receive. It
// looks at one call only: the runtime ensures that no rank still uses the library's slots of the last call.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.hpp"
#include "plan/plan.hpp"
#include "plan/shape.hpp"
#include "plan/traffic.hpp"

namespace plait {

// Facts about one reduce that the verifier found, for the lowering. Empty for other operations.
struct ReduceFacts {
  std::vector<uint8_t> source_is_partial;  // source i holds an unfinished reduction
  bool result_is_partial = false;
  bool finishes = false;  // the result has all contributions, and no source had

  friend bool operator==(const ReduceFacts&, const ReduceFacts&) = default;
};

struct PlanReport : PlanCounts {
  PlanShape shape;
  bool stores_partial_results = false;                       // some reduce stores an unfinished reduction
  int steps = 0;                                             // the longest chain of signals and messages between ranks
  bool synchronizes = false;                                 // every rank's return follows every rank's call
  std::vector<std::vector<std::vector<ReduceFacts>>> facts;  // [rank][queue][operation]
  // An operation that stores in another rank's memory what nobody reads: right, but in vain, and nobody learns when it
  // has come.
  std::optional<OperationId> unread_store;
};

// A plan that has passed. Only verify() makes one, so code that takes a VerifiedPlan cannot be given a wrong plan.
class VerifiedPlan {
 public:
  const Plan& plan() const { return plan_; }
  const PlanReport& report() const { return report_; }
  // The fingerprint by which calls name the plan.
  uint64_t fingerprint() const { return fingerprint_; }
  // Whether LL and LL128 can perform it for elements of a type. One rank writes each slot of scratch, once, as a whole
  // and in that type, and only its owner reads it. Every result is written once. Then each piece of data can carry its
  // own flag, and every signal may be left out: whatever a wait guards is guarded by the flags.
  bool can_carry_flags(DataType type) const;

 private:
  friend VerifiedPlan verify(Plan plan);
  VerifiedPlan(Plan plan, PlanReport report);

  Plan plan_;
  PlanReport report_;
  uint64_t fingerprint_;
};

// Throws Error(kInvalidPlan) that names rank, queue, operation and chunk of the first fault. Throws PlanTooLarge, which
// is such an error, if the plan is too large to prove.
VerifiedPlan verify(Plan plan);

}  // namespace plait
