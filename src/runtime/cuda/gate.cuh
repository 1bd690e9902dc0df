// A thread at a gate: it signals and waits for a lane that copies, within bounds.
#pragma once

#include "runtime/cuda/gate_kernel.hpp"
#include "runtime/cuda/patience.cuh"
#include "runtime/lane_loop.hpp"

namespace plait {

// A word counts the signals that came so far, and its tag is that of the agreement that the last one is of.
class Gate {
 public:
  // All parts of `lane`'s lane have its way, its peer and its agreement.
  __device__ Gate(const GateEnd& end, const GateLane& lane)
      : end_(end),
        way_(lane.way),
        peer_(lane.peer),
        index_(gate_index(lane.way, lane.peer)),
        agreement_(lane.agreement),
        sent_(end.state->sent[index_]),
        awaited_(end.state->awaited[index_]) {}

  // False: given up, and reported. Of several threads that pass for one lane, all of which count alike, one `speaks`:
  // it signals.
  __device__ bool pass(const GateLane& lane, bool speaks = true) {
    speaks_ = speaks;
    int next = 0;
    return advance_lane(lane.operations, lane.count, next, *this) == LaneState::kDone;
  }

  // What the next launch goes on from. Only one thread, and after all others have begun.
  __device__ void leave() const {
    end_.state->sent[index_] = sent_;
    end_.state->awaited[index_] = awaited_;
  }

  __device__ void fold(const GateOperation&) const {}

  // What this rank has written or read before, its stream or its CTA has completed.
  __device__ void signal(const GateOperation&) {
    ++sent_;
    if (!speaks_) return;
    const uint64_t value = static_cast<uint64_t>(agreement_) << kCountBits | sent_;
    machine::store_release(end_.self.blocks[peer_] + BlockLayout::gate_at(counterpart(way_), end_.self.rank), value);
  }

  __device__ bool wait(const GateOperation&) {
    ++awaited_;
    const std::byte* const word = end_.self.blocks[end_.self.rank] + BlockLayout::gate_at(way_, peer_);
    const uint64_t seen = poll(word, end_.self, [this](uint64_t it) { return (it & kCountMask) >= awaited_; });
    const uint64_t count = seen & kCountMask;
    if (count > awaited_ || (count == awaited_ && seen >> kCountBits == agreement_)) return true;
    const auto why = count < awaited_ ? StrandFailure::kTimedOut : StrandFailure::kOtherCall;
    report_wait(end_.failures + index_, {.state = why, .peer = peer_, .expected_epoch = awaited_, .seen_epoch = count});
    return false;
  }

 private:
  const GateEnd& end_;
  const GateWay way_;
  const int peer_;
  const int index_;
  const uint32_t agreement_;
  bool speaks_ = true;
  uint64_t sent_, awaited_;
};

}  // namespace plait
