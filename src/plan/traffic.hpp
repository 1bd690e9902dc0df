// Between which memories an operation moves its chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/form.hpp"
#include "plan/plan.hpp"

namespace plait {

// Where bytes cross from or to: the memory next to a rank.
struct Endpoint {
  int rank = 0;
  bool host = false;  // host memory next to the rank, else the rank's own

  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

inline Endpoint endpoint_of(const Place& place) { return {place.rank, place.buffer == Buffer::kHost}; }

// One crossing of all chunks of an operation.
struct Transfer {
  Endpoint from;
  Endpoint to;

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// The crossings between different memories that an operation makes. A reduce loads its sources into the queue's
// processor and stores from there: the rank's own, or the host's for the `cpu` queue of a rank that has `sm` or `copy`
// queues too. What a copy engine moves goes straight. Messages cross where they are received.
std::vector<Transfer> transfers(const Plan& plan, const Pairing& pairing, const OperationId& id);

}  // namespace plait
