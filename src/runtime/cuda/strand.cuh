// What both protocols share: where a strand's memory lies, waiting within bounds, giving up.
#pragma once

#include "runtime/cuda/lane_kernel.hpp"

namespace plait {

// Loads and stores of words that other GPUs write or read meanwhile. System scope, since the peers are other devices.
namespace words {

__device__ inline void store_release(void* to, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ inline void store_relaxed(void* to, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}
__device__ inline uint64_t load_acquire(const void* from) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline uint32_t load_relaxed(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

}  // namespace words

__device__ inline uint64_t nanoseconds_now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Bounds one thread's wait.
class Patience {
 public:
  // True once the time is over or the communicator has failed. Cheap: it looks at the clock and over PCIe seldom.
  __device__ bool is_over(const DeviceRank& self) {
    if (++looks_ % kLooksBetween != 0) return false;
    const uint64_t now = nanoseconds_now();
    if (start_ == 0) start_ = now;
    return now - start_ > self.wait_nanoseconds || words::load_relaxed(self.aborted) != 0;
  }

 private:
  static constexpr uint32_t kLooksBetween = 512;
  uint32_t looks_ = 0;
  uint64_t start_ = 0;
};

// One CTA's share of a launch. Members are the same in all threads.
template <class Launch>
class Strand {
 public:
  __device__ Strand(const Launch& launch, int number, int lane, int lanes, int* gave_up)
      : launch_(launch), number_(number), lane_(lane), lanes_(lanes), gave_up_(gave_up) {
    state_ = launch.self.states[number * kMostLanes + lane];
  }

  __device__ const Launch& launch() const { return launch_; }
  __device__ const DeviceRank& self() const { return launch_.self; }
  __device__ int number() const { return number_; }
  __device__ uint64_t epoch() const { return state_.epoch; }
  __device__ unsigned parity() const { return state_.epoch & 1; }

  __device__ std::byte* signals(int rank) const {
    return self().blocks[rank] + self().layout.signals_at(number_, parity());
  }
  __device__ std::byte* scratch(int rank) const {
    return self().blocks[rank] + self().layout.scratch_at(number_, parity());
  }
  __device__ std::byte* packets(int rank) const {
    return self().blocks[rank] + self().layout.packets_at(number_, parity());
  }

  __device__ std::byte* lines(int rank) const {
    return self().blocks[rank] + self().layout.lines_at(number_, parity());
  }

  // Begins an epoch, whose half of the memory was last used in epoch - 2. For all threads; false: given up.
  __device__ bool begin() {
    ++state_.epoch;
    if (state_.epoch <= 2 || state_.everyone_completed >= state_.epoch - 2) return true;
    const int peer = static_cast<int>(threadIdx.x) / kMostLanes;
    bool came = true;
    if (peer < self().ranks) came = await_completion(peer, threadIdx.x % kMostLanes, state_.epoch - 2);
    state_.everyone_completed = state_.epoch - 2;
    return __syncthreads_and(came);
  }

  // Ends it. Only after a barrier of the CTA that follows the last access to the memory of this epoch. `leaves`: the
  // launch has no more epochs.
  __device__ void end(const SliceProgram& program, bool leaves) {
    if (program.hears_everyone) state_.everyone_completed = state_.epoch - 1;
    if (leaves) leave();
    if (program.is_awaited) {
      publish_completion(self().ranks);
    } else if (leaves) {
      publish_completion(0);
    }
  }

  // Reports why a wait did not end, unless another thread of the CTA has. Over PCIe; only on the way out.
  __device__ void give_up(StrandFailure::State why, int peer, int operation, uint32_t seen_call, uint64_t seen_epoch) {
    if (atomicCAS(gave_up_, 0, 1) != 0) return;
    StrandFailure& failure = self().failures[number_ * kMostLanes + lane_];
    failure.peer = peer;
    failure.operation = operation;
    failure.expected_call = launch_.call;
    failure.seen_call = seen_call;
    failure.expected_epoch = state_.epoch;
    failure.seen_epoch = seen_epoch;
    __threadfence_system();
    *static_cast<volatile uint32_t*>(&failure.state) = why;
  }

 private:
  __device__ void leave() {
    const int lane = lane_ + static_cast<int>(threadIdx.x);
    if (threadIdx.x < speaks_for()) self().states[number_ * kMostLanes + lane] = state_;
  }

  // The last lane of a launch stands for those that the launch does not have.
  __device__ int speaks_for() const { return lane_ == lanes_ - 1 ? kMostLanes - lane_ : 1; }

  // Peers tell what they have completed where somebody may wait for it; else it is there to be asked for.
  __device__ bool await_completion(int peer, int lane, uint64_t epoch) {
    const size_t word = self().layout.completed_at(number_, peer, lane);
    Patience patience;
    for (;;) {
      uint64_t seen = words::load_acquire(self().blocks[self().rank] + word);
      if (seen < epoch) seen = words::load_acquire(self().blocks[peer] + word);
      if (seen >= epoch) return true;
      if (!patience.is_over(self())) continue;
      give_up(StrandFailure::kTimedOut, peer, -1, 0, seen);
      return false;
    }
  }

  // On this rank, and on the first `peers` ranks. Only reads have to be over before others may see this, for what they
  // want is to write. The barrier before it came after every load's value was used, so a plain store suffices; a
  // release would wait for stores to peers as well.
  __device__ void publish_completion(int peers) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int peer = thread / kMostLanes, lane = lane_ + thread % kMostLanes;
    if (lane >= lane_ + speaks_for() || peer >= max(peers, 1)) return;
    std::byte* block = self().blocks[peers == 0 ? self().rank : peer];
    words::store_relaxed(block + self().layout.completed_at(number_, self().rank, lane), state_.epoch);
  }

  const Launch& launch_;
  const int number_, lane_, lanes_;
  int* gave_up_;  // shared memory
  StrandState state_;
};

}  // namespace plait
