// One thread's part in a barrier: it signals and waits for a queue whose copies others perform. Waits are bounded.
#pragma once

#include "runtime/cuda/device/bounded_spin.cuh"
#include "runtime/cuda/zero_copy/barrier_kernel.hpp"
#include "runtime/queue_loop.hpp"

namespace plait {

// A flag counts the signals so far; its tag identifies the agreement that the last signal belongs to.
class Barrier {
 public:
  // All parts of a queue have the same kind, peer and agreement as `queue`.
  __device__ Barrier(const BarrierEndpoint& end, const BarrierQueue& queue)
      : end_(end),
        kind_(queue.kind),
        peer_(queue.peer),
        index_(barrier_index(queue.kind, queue.peer)),
        agreement_(queue.agreement),
        sent_(end.state->sent[index_]),
        awaited_(end.state->awaited[index_]) {}

  // Performs the operations of `queue`. False: given up, and reported. If several threads do this for one queue, all
  // count, but only one of them `signals`.
  __device__ bool pass(const BarrierQueue& queue, bool signals = true) {
    signals_ = signals;
    int next = 0;
    return advance_queue(queue.operations, queue.count, next, *this) == QueueState::kDone;
  }

  // Stores the counts for the next launch. Only for one thread, after all threads have constructed theirs.
  __device__ void leave() const {
    end_.state->sent[index_] = sent_;
    end_.state->awaited[index_] = awaited_;
  }

  __device__ void reduce(const BarrierOperation&) const {}

  // The stream or the CTA has completed all earlier reads and writes of this rank.
  __device__ void signal(const BarrierOperation&) {
    ++sent_;
    if (!signals_) return;
    const uint64_t value = static_cast<uint64_t>(agreement_) << kCountBits | sent_;
    ptx::store_release(end_.self.blocks[peer_] + BlockLayout::barrier_at(counterpart(kind_), end_.self.rank), value);
  }

  __device__ bool wait(const BarrierOperation&) {
    ++awaited_;
    const std::byte* const word = end_.self.blocks[end_.self.rank] + BlockLayout::barrier_at(kind_, peer_);
    const uint64_t seen = poll(word, end_.self, [this](uint64_t it) { return (it & kCountMask) >= awaited_; });
    const uint64_t count = seen & kCountMask;
    if (count > awaited_ || (count == awaited_ && seen >> kCountBits == agreement_)) return true;
    const auto why = count < awaited_ ? ChannelFailure::kTimedOut : ChannelFailure::kOtherCall;
    report_wait(end_.failures + index_, {.state = why, .peer = peer_, .expected_epoch = awaited_, .seen_epoch = count});
    return false;
  }

 private:
  const BarrierEndpoint& end_;
  const BarrierKind kind_;
  const int peer_;
  const int index_;
  const uint32_t agreement_;
  bool signals_ = true;
  uint64_t sent_, awaited_;
};

}  // namespace plait
