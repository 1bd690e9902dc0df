// Messages between neighbours. Both ways, it is nccl-tests' sendrecv: every rank sends to the next rank and receives
// from the one before, at once. One way, it is OSU's osu_bw in pairs: even ranks send, each to the next one (TEM-29).
#pragma once

#include <cstddef>
#include <vector>

#include "base/types.hpp"
#include "runtime/call.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

struct ShiftPattern {
  int window = 1;  // messages of a pair that are given at once
  bool is_one_way = false;
};

struct RingShift {
  static constexpr int kNobody = -1;

  int to = 0;
  int from = 0;
  DataType type = DataType::kUint8;
  size_t count = 0;
  int window = 1;

  static RingShift of(int rank, int ranks, DataType type, size_t count, const ShiftPattern& pattern = {}) {
    RingShift shift{(rank + 1) % ranks, (rank + ranks - 1) % ranks, type, count, pattern.window};
    if (!pattern.is_one_way) return shift;
    if (rank % 2 != 0 || rank + 1 == ranks) shift.to = kNobody;
    if (rank % 2 == 0) shift.from = kNobody;
    return shift;
  }
  bool sends() const { return to != kNobody; }
  bool receives() const { return from != kNobody; }
  bool is_both_ways() const { return sends() && receives(); }
  size_t bytes() const { return count * size_of(type); }
  // The messages of this rank, in place of what the list has. All of a window are the same.
  void list(const void* input, void* output, std::vector<PeerMessage>& messages) const {
    messages.clear();
    for (int i = 0; i < window; ++i) {
      if (sends()) messages.push_back({PeerMessage::Kind::kSend, to, type, count, const_cast<void*>(input)});
      if (receives()) messages.push_back({PeerMessage::Kind::kReceive, from, type, count, output});
    }
  }
  // A rank sends what it would broadcast: for exact inputs.
  Call broadcast_of(int rank) const { return {Collective::kBroadcast, type, ReduceOp::kSum, rank, count}; }
};

}  // namespace plait
