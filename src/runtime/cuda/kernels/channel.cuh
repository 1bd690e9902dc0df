// The common part of all protocols: a channel's epochs, the place of its LL and LL128 memory, and how it gives up.
#pragma once

#include "runtime/cuda/device/bounded_spin.cuh"
#include "runtime/cuda/device/ptx.cuh"
#include "runtime/cuda/kernels/queue_kernel.hpp"

namespace plait {

// Lets the next launch of the stream start. For all threads, each once it has received everything; the first warp does
// it for the CTA. The next launch occupies SMs, so it must not keep out a CTA that this launch still waits for.
//
// Other warps of this CTA may still wait at that time, but only for CTAs that already run. The first warp receives the
// first word of everything that the CTA receives. So by now it has received something from every CTA on other GPUs that
// the other warps wait for, and those CTAs likewise from the ones that they wait for. CTAs that run, and have begun
// this epoch, wait only for each other.
__device__ inline void let_next_launch_begin_after_first_warp() {
  if (ptx::this_thread() < static_cast<int>(kWarpThreads)) ptx::let_next_launch_begin();
}

// One CTA's share of a launch. Members have the same values in all threads.
//
// A two-shot launch runs most code only once and lasts as long as its chain of instructions. So code for rare cases is
// not inlined, and addresses take few instructions.
template <class Memory>
class ChannelIn {
 public:
  using Room = Memory;

  // Queue `queue` of channel `number`, in a launch with `queues` queues per rank.
  __device__ ChannelIn(const Launch& launch, int number, int queue, int queues)
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
  // The distance from the LL or LL128 memory of channel 0 and even epochs to that of this epoch.
  __device__ uint32_t ll_from_first() const {
    return static_cast<uint32_t>(BlockLayout::ll_at(number_, parity()) - BlockLayout::ll_at(0, 0));
  }
  __device__ uint32_t ll128_from_first() const {
    return static_cast<uint32_t>(BlockLayout::ll128_at(number_, parity()) - BlockLayout::ll128_at(0, 0));
  }

  // Begins an epoch. Its half of the memory was last used in epoch - 2, so every rank has to be done with that one. For
  // all threads; false: given up.
  //
  // This rank knows that from an implicit acknowledgement (EpochEnd), or it waits until the others acknowledge epoch -
  // 2 or, if that epoch needs no acknowledgement, epoch - 1. If epoch - 1 needed none either, it would have given this
  // rank an implicit one. Ranks never wait in a circle: to begin an epoch they wait for the ends of earlier epochs, and
  // within an epoch only for what others do in it.
  __device__ bool begin() {
    ++epoch_;
    if (__builtin_expect(everyone_completed_ + 2 >= epoch_ && !gave_up_, true)) return true;
    if (gave_up_) return false;
    everyone_completed_ = epoch_ - 2;  // if that fails, the CTA begins nothing more
    return await_queues(~QueueSet{0}, epoch_ - 2);
  }

  // The same if epoch - 2 was a full slice of this launch, so that begin() has checked gave_up_. Only `predecessors`
  // have to be done with it. They acknowledge it, as all queues of a plan do unless none needs to (EpochEnd). For all
  // threads.
  __device__ bool begin_after(QueueSet predecessors) {
    ++epoch_;
    return everyone_completed_ + 2 >= epoch_ || await_queues(predecessors, epoch_ - 2);
  }

  // Ends the epoch. Call it only after a barrier of the CTA that follows the last access to the memory of this epoch.
  // Signals may come later, since the ranks that wait for them end the epoch only after they have arrived.
  __device__ void end(const EpochEnd& end) {
    if (end.implicit_ack) everyone_completed_ = epoch_ - 1;
    if (end.needs_ack) publish_completion();
  }

  // Stores the state that the next launch starts from. Call it only after a barrier that follows begin() of the
  // launch's last epoch. The epoch need not be over, since the next launch reads the state only after this one has
  // ended.
  __device__ void leave(const EpochEnd& last) const {
    const int thread = ptx::this_thread();
    if (thread < covered_queues()) {
      ChannelState& next = (&state())[thread];
      next.epoch = epoch_;
      next.everyone_completed = last.implicit_ack ? epoch_ - 1 : everyone_completed_;
    }
  }

  // Reports why a wait failed, unless another thread of the queue has done that. After it the queue begins nothing
  // more, nor do the queues that it covers, since they have missed its epochs.
  __device__ void give_up(ChannelFailure::State why, int peer, int operation, uint32_t seen_call,
                          uint64_t seen_epoch) const {
    report(&state(), covered_queues(), self().failures + Room::kFirstState + number_ * Room::kQueues + queue_,
           {.state = why,
            .peer = peer,
            .operation = operation,
            .expected_call = launch_.call,
            .seen_call = seen_call,
            .expected_epoch = epoch_,
            .seen_epoch = seen_epoch});
  }
  // The same for data that did not arrive at an LL address.
  __device__ void give_up_on_data(uint64_t address, uint64_t seen_epoch) const {
    give_up(ChannelFailure::kTimedOut, writer_at(address), ChannelFailure::kData, 0, seen_epoch);
  }

 private:
  __device__ ChannelState& state() const { return self().states[Room::kFirstState + number_ * Room::kQueues + queue_]; }

  // How many queues this CTA keeps the state of: its own, and the last one also those that the launch does not have.
  __device__ int covered_queues() const { return queue_ == queues_ - 1 ? Room::kQueues - queue_ : 1; }

  // Whether there is a thread for each queue of each rank, and a bit of a QueueSet.
  static constexpr bool kHasThreads = Room::kQueues * kMostDeviceRanks <= kLeastThreads;

  // Waits until `queues` have completed `epoch`, with a thread for each queue of each rank. Where there are not so many
  // threads, waits for all queues.
  __device__ bool await_queues(QueueSet queues, uint64_t epoch) const {
    const int thread = ptx::this_thread(), peer = thread / Room::kQueues;
    bool came = true;
    if constexpr (kHasThreads) {
      if (peer < self().ranks && (queues >> thread & 1) != 0) came = completes(peer, thread % Room::kQueues, epoch);
    } else {
#pragma unroll 1
      for (int i = thread; i < self().ranks * Room::kQueues && came; i += static_cast<int>(blockDim.x)) {
        came = completes(i / Room::kQueues, i % Room::kQueues, epoch);
      }
    }
    return __syncthreads_and(came);
  }

  // Waits until one queue has completed `epoch`. False: given up.
  __device__ bool completes(int peer, int queue, uint64_t epoch) const {
    const std::byte* const word = block(self().rank) + Room::completed_at(number_, peer, queue);
    const uint64_t seen = await_count(word, epoch, self().wait_nanoseconds, self().aborted);
    const bool came = seen >= epoch;
    if (!came) give_up(ChannelFailure::kTimedOut, peer, ChannelFailure::kEarlierEpoch, 0, seen);
    return came;
  }

  // Polls a flag until it is at least `count`, and returns it; less: given up.
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

  // Acknowledges the epoch to all ranks, this one included. The others only want to write, so only this CTA's reads
  // have to be over before they see it. The barrier before it came after every loaded value was used, so a relaxed
  // store suffices; a release would also wait for stores to peers.
  __device__ void publish_completion() const {
    const int thread = ptx::this_thread();
    if constexpr (kHasThreads) {
      const int peer = thread / Room::kQueues, queue = queue_ + thread % Room::kQueues;
      if (queue >= queue_ + covered_queues() || peer >= self().ranks) return;
      ptx::store_relaxed(block(peer) + Room::completed_at(number_, self().rank, queue), epoch_);
    } else {
      const int covered = covered_queues();
#pragma unroll 1
      for (int i = thread; i < self().ranks * covered; i += static_cast<int>(blockDim.x)) {
        const int peer = i / covered, queue = queue_ + i % covered;
        ptx::store_relaxed(block(peer) + Room::completed_at(number_, self().rank, queue), epoch_);
      }
    }
  }

  const Launch& launch_;
  const int number_, queue_, queues_;
  uint64_t epoch_, everyone_completed_;  // see ChannelState
  const bool gave_up_;                   // in an earlier launch, so everyone_completed_ does not count
};
using Channel = ChannelIn<OrdinaryRoom>;

}  // namespace plait
