// Tells between which memories operations move their chunks, and counts that.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/form.hpp"
#include "plan/plan.hpp"

namespace plait {

// A memory from or to which bytes cross.
struct Endpoint {
  int rank = 0;
  bool host = false;  // host memory next to the rank, or else the rank's own memory

  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

inline Endpoint endpoint_of(const Place& place) { return {place.rank, place.buffer == Buffer::kHost}; }

// One crossing by all chunks of an operation.
struct Transfer {
  Endpoint from;
  Endpoint to;

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// Finds the crossings between different memories that an operation makes. A reduce loads its sources into the queue's
// processor and stores from there. The processor is next to the rank's own memory. For the `cpu` queue of a rank that
// also has `sm` or `copy` queues it is next to the host's. A copy engine moves data straight. Messages count where they
// are received. `found` is emptied first, so that callers can keep it from one operation to the next.
void find_transfers(const Plan& plan, const Pairing& pairing, const OperationId& id, std::vector<Transfer>& found);

// Whether the queue is the work of a CPU core beside a GPU: one that combines. Others of its engine only pass data on,
// which takes a core little time where copy engines and NICs do it.
bool keeps_core_busy(const Plan& plan, int rank, int queue);

// Chunks that cross from one memory (or engine) to another in one execution of the plan.
struct Traffic {
  Endpoint from;
  Endpoint to;
  int64_t chunks = 0;
};

// Counts in a plan that need no execution.
struct PlanCounts {
  std::vector<Traffic> traffic;      // between different endpoints, sorted
  std::vector<int64_t> chunks_read;  // by each rank's engines, in chunks
  std::vector<int64_t> chunks_written;
  std::vector<int64_t> chunks_of_cores;  // of both, by queues of CPUs that keep a core busy
  std::vector<int64_t> chunks_combined;  // of both, by operations of several sources of all other queues
};

// The form of the plan must be right.
PlanCounts count(const Plan& plan, const Pairing& pairing);

}  // namespace plait
