// nccl-tests' sendrecv: every rank sends to the next rank and receives from the one before, at once.
#pragma once

#include <array>
#include <cstddef>

#include "base/types.hpp"
#include "runtime/call.hpp"
#include "runtime/peer_message.hpp"

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
  // The shift as an exchange of two messages.
  std::array<PeerMessage, 2> messages(const void* input, void* output) const {
    return {{{PeerMessage::Kind::kSend, to, type, count, const_cast<void*>(input)},
             {PeerMessage::Kind::kReceive, from, type, count, output}}};
  }
  // A rank sends what it would broadcast: for exact inputs.
  Call broadcast_of(int rank) const { return {Collective::kBroadcast, type, ReduceOp::kSum, rank, count}; }
};

}  // namespace plait
