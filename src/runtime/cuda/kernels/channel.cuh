// What queues share: a channel's epochs, where its packets and lines lie, giving up.
#pragma once

#include "runtime/cuda/device/bounded_spin.cuh"
#include "runtime/cuda/device/ptx.cuh"
#include "runtime/cuda/kernels/queue_kernel.hpp"

namespace plait {

// Lets the next launch of the stream begin, for whose sake nobody may be kept off the GPU that this one still waits
// for. For all threads, once they have taken all they take: those of the first warp speak for the CTA.
//
// Others of it may still wait then, but for nothing that has yet to be put on a GPU. The first warp has the first word
// of whatever the CTA takes, so by now it has had something of every CTA, on other GPUs, that the rest waits for, and
// they of those that they wait for. CTAs that are on a GPU, and have begun this epoch, wait only for each other.
__device__ inline void let_next_launch_begin_after_first_warp() {
  if (ptx::this_thread() < static_cast<int>(kWarpThreads)) ptx::let_next_launch_begin();
}

// One CTA's share of a launch. Members are the same in all threads.
//
// A two-shot launch is over before anything of it was needed twice, and lasts as long as its chain of instructions: so
// what is seldom needed is not inlined, and addresses are found with few steps.
class Channel {
 public:
  // Queue `queue` of channel `number`, of a launch of `queues` a rank.
  __device__ Channel(const Launch& launch, int number, int queue, int queues)
      : launch_(launch),
        number_(number),
        queue_(queue),
        queues_(queues),
        epoch_(state().epoch),
        everyone_completed_(state().everyone_completed),
        gave_up_(state().gave_up != 0) {}

  __device__ const Launch& launch() const { return launch_; }
  __device__ const DeviceRank& self() const { return launch_.self; }
  __device__ int number() const { return number_; }
  __device__ uint64_t epoch() const { return epoch_; }
  __device__ unsigned parity() const { return epoch_ & 1; }

  __device__ std::byte* block(int rank) const { return self().blocks[rank]; }
  // From the packets or lines of channel 0 and even epochs to those of this epoch.
  __device__ uint32_t ll_from_first() const {
    return static_cast<uint32_t>(BlockLayout::ll_at(number_, parity()) - BlockLayout::ll_at(0, 0));
  }
  __device__ uint32_t ll128_from_first() const {
    return static_cast<uint32_t>(BlockLayout::ll128_at(number_, parity()) - BlockLayout::ll128_at(0, 0));
  }

  // Begins an epoch, whose half of the memory was last used in epoch - 2. For all threads; false: given up.
  //
  // That everyone is done with epoch - 2 this rank has heard (EpochEnd::hears_everyone), or the others tell it when
  // they end that epoch, or where it is not awaited, the one after: had that not been awaited either, this rank would
  // have heard everyone in it. So nobody waits in a circle: to begin an epoch a rank waits for the ends of earlier
  // ones, and within it for what others do in the same one.
  __device__ bool begin() {
    ++epoch_;
    if (__builtin_expect(everyone_completed_ + 2 >= epoch_ && !gave_up_, true)) return true;
    if (gave_up_) return false;
    everyone_completed_ = epoch_ - 2;  // or else the CTA begins nothing more
    return await_queues(~QueueSet{0}, epoch_ - 2);
  }

  // The same where epoch - 2 was a full slice of this launch, so that begin() has looked at gave_up_: who must be done
  // with it says so here, as all queues of a plan do unless none is awaited (EpochEnd). For all threads.
  __device__ bool begin_after(QueueSet predecessors) {
    ++epoch_;
    return everyone_completed_ + 2 >= epoch_ || await_queues(predecessors, epoch_ - 2);
  }

  // Ends it. Only after a barrier of the CTA that follows the last access to the memory of this epoch, but for signals:
  // who waits for them has not ended it before they have come.
  __device__ void end(const EpochEnd& end) {
    if (end.implicit_ack) everyone_completed_ = epoch_ - 1;
    if (end.needs_ack) publish_completion();
  }

  // What the next launch goes on from. Only after a barrier that follows begin() of the launch's last epoch; it need
  // not be over yet, for the next launch begins when this one is.
  __device__ void leave(const EpochEnd& last) const {
    const int thread = ptx::this_thread();
    if (thread < covered_queues()) {
      ChannelState& next = (&state())[thread];
      next.epoch = epoch_;
      next.everyone_completed = last.implicit_ack ? epoch_ - 1 : everyone_completed_;
    }
  }

  // Reports why a wait did not end, unless another thread of the queue has. It begins nothing more, nor do queues that
  // it speaks for: they do not know of its epochs.
  __device__ void give_up(ChannelFailure::State why, int peer, int operation, uint32_t seen_call,
                          uint64_t seen_epoch) const {
    report(&state(), covered_queues(), self().failures + number_ * kMostQueues + queue_,
           {.state = why,
            .peer = peer,
            .operation = operation,
            .expected_call = launch_.call,
            .seen_call = seen_call,
            .expected_epoch = epoch_,
            .seen_epoch = seen_epoch});
  }
  // The same of packets and lines that were to come at an LL address.
  __device__ void give_up_on_data(uint64_t address, uint64_t seen_epoch) const {
    give_up(ChannelFailure::kTimedOut, writer_at(address), ChannelFailure::kData, 0, seen_epoch);
  }

 private:
  __device__ ChannelState& state() const { return self().states[number_ * kMostQueues + queue_]; }

  // The last queue of a launch stands for those that the launch does not have.
  __device__ int covered_queues() const { return queue_ == queues_ - 1 ? kMostQueues - queue_ : 1; }

  // Until they have completed `epoch`: a thread for each of `queues`, as far as there are such ranks.
  __device__ bool await_queues(QueueSet queues, uint64_t epoch) const {
    const int thread = ptx::this_thread(), peer = thread / kMostQueues;
    bool came = true;
    if (peer < self().ranks && (queues >> thread & 1) != 0) {
      const std::byte* const word = block(self().rank) + BlockLayout::completed_at(number_, peer, thread % kMostQueues);
      const uint64_t seen = await_count(word, epoch, self().wait_nanoseconds, self().aborted);
      came = seen >= epoch;
      if (!came) give_up(ChannelFailure::kTimedOut, peer, ChannelFailure::kEarlierEpoch, 0, seen);
    }
    return __syncthreads_and(came);
  }

  // Waits until the word is at least `count`; less: given up.
  static __device__ __noinline__ uint64_t await_count(const std::byte* word, uint64_t count, uint64_t wait_nanoseconds,
                                                      const uint32_t* aborted) {
    BoundedSpin spin;
    for (;;) {
      const uint64_t seen = ptx::load_acquire(word);
      if (seen >= count || spin.is_over(wait_nanoseconds, aborted)) return seen;
    }
  }

  static __device__ __noinline__ void report(ChannelState* queues, int count, ChannelFailure* to,
                                             ChannelFailure failure) {
    if (atomicCAS(&queues[0].gave_up, 0, 1) != 0) return;
#pragma unroll 1
    for (int other = 1; other < count; ++other) queues[other].gave_up = 1;
    report_wait(to, failure);
  }

  // To all ranks, also this one. Only reads have to be over before others may see this, for what they want is to write.
  // The barrier before it came after every load's value was used, so a plain store suffices; a release would wait for
  // stores to peers as well.
  __device__ void publish_completion() const {
    const int thread = ptx::this_thread();
    const int peer = thread / kMostQueues, queue = queue_ + thread % kMostQueues;
    if (queue >= queue_ + covered_queues() || peer >= self().ranks) return;
    ptx::store_relaxed(block(peer) + BlockLayout::completed_at(number_, self().rank, queue), epoch_);
  }

  const Launch& launch_;
  const int number_, queue_, queues_;
  uint64_t epoch_, everyone_completed_;  // see ChannelState
  const bool gave_up_;                   // in an earlier launch: its state says more than was heard
};

}  // namespace plait
