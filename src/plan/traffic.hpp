// Tells between which memories an operation moves its chunks.
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

// Returns the crossings between different memories that an operation makes. A reduce loads its sources into the queue's
// processor and stores from there. That processor is next to the rank's own memory, or next to the host's for the `cpu`
// queue of a rank that also has `sm` or `copy` queues. A copy engine moves data straight. Messages count where they are
// received.
std::vector<Transfer> transfers(const Plan& plan, const Pairing& pairing, const OperationId& id);

}  // namespace plait
