// Proves a plan right before anything runs it.
//
// The verifier executes the plan symbolically. Each place holds a value: which chunk it is, whose contributions it
// sums up, and the expression that combined them. Happens-before comes from queues, signals and messages (vector
// clocks); since every signal has one sender and one waiter, one execution stands for all interleavings. A plan passes
// only if
//  - every output chunk ends with exactly the contributions the collective demands, each once, combined by the same
//    expression on every rank (so results are equal bit for bit);
//  - nothing is read before it was written, or written while it may be read or written elsewhere; the input and output
//    of a rank are touched by others only between that rank's call and its return;
//  - every wait is met, every signal and message is awaited, no queue waits for ever;
//  - all places are in bounds and in reach of the engine; unfinished reductions stay out of the caller's buffers (they
//    may be wider than the caller's type);
//  - places of one operation share memory wholly or not at all, and wholly only where their elements are of one width;
//  - all of this also holds where input and output share memory, if the plan claims so, and whoever reads an input
//    there reads it before the output is written over it; what a GPU would copy onto itself there is left out;
//  - the proof fits into memory and ends in good time (proof_size.hpp).
//
// It takes for granted that a send is over once its source may be overwritten, without waiting for its receive, and it
// looks at one call: that nobody uses the library's slots of the last call any more is the runtime's affair.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.hpp"
#include "plan/traffic.hpp"

namespace plait {

// What the verifier learned about one reduce, for whoever lowers it. Empty for other operations.
struct ReduceFacts {
  std::vector<uint8_t> source_is_partial;  // source i holds an unfinished reduction
  bool result_is_partial = false;
  bool finishes = false;  // the result has all contributions and no source had

  friend bool operator==(const ReduceFacts&, const ReduceFacts&) = default;
};

// Chunks that cross from one memory (or engine) to another in one execution of the plan.
struct Traffic {
  Endpoint from;
  Endpoint to;
  int64_t chunks = 0;
};

struct PlanReport {
  int steps = 0;                     // signals and messages between ranks on the longest chain
  bool synchronizes = false;         // every rank's return follows every rank's call
  std::vector<Traffic> traffic;      // between different endpoints, sorted
  std::vector<int64_t> chunks_read;  // of each rank's engines, in chunks
  std::vector<int64_t> chunks_written;
  std::vector<std::vector<std::vector<ReduceFacts>>> facts;  // [rank][queue][operation]
  // An operation that stores in another rank's memory what nobody reads: right, but in vain, and nobody learns when it
  // has come.
  std::optional<OperationId> unread_store;
};

// A plan that passed. Only verify() makes one, so whatever takes a VerifiedPlan cannot be given a wrong plan.
class VerifiedPlan {
 public:
  const Plan& plan() const { return plan_; }
  const PlanReport& report() const { return report_; }
  // As fingerprint() gives it: what calls name the plan by.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  friend VerifiedPlan verify(Plan plan);
  VerifiedPlan(Plan plan, PlanReport report);

  Plan plan_;
  PlanReport report_;
  uint64_t fingerprint_;
};

// Throws Error(kInvalidPlan) that names rank, queue, operation and chunk of the first fault; PlanTooLarge, which is
// one, where the plan is too large to prove.
VerifiedPlan verify(Plan plan);

}  // namespace plait
