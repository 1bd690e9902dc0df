// What every rank does in nccl-tests' sendrecv: one message to the next rank and one from that before, at once.
#pragma once

#include <cstddef>

#include "base/types.hpp"
#include "runtime/call.hpp"

namespace plait {

struct RingShift {
  int to = 0;
  int from = 0;
  DataType type = DataType::kUint8;
  size_t count = 0;

  static RingShift of(int rank, int ranks, DataType type, size_t count) {
    return {(rank + 1) % ranks, (rank + ranks - 1) % ranks, type, count};
  }
  size_t bytes() const { return count * size_of(type); }
  // A rank sends what it would broadcast: for exact inputs.
  Call broadcast_of(int rank) const { return {Collective::kBroadcast, type, ReduceOp::kSum, rank, count}; }
};

}  // namespace plait
