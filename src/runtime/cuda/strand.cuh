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

// All threads of a warp, in votes and shuffles.
inline constexpr unsigned kWarp = 0xffffffff;

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

// Why somebody other than a strand gave up waiting, to host memory. Over PCIe; only on the way out.
__device__ inline void report_wait(StrandFailure* to, int peer, StrandFailure::State why, uint64_t expected,
                                   uint64_t seen) {
  to->peer = peer;
  to->expected_epoch = expected;
  to->seen_epoch = seen;
  __threadfence_system();
  *static_cast<volatile uint32_t*>(&to->state) = why;
}

// One CTA's share of a launch. Members are the same in all threads.
//
// A short launch is over before anything of it was needed twice, and lasts as long as its chain of instructions: so
// what is seldom needed is not inlined, and addresses are found with few steps.
class Strand {
 public:
  __device__ Strand(const Launch& launch, int* gave_up)
      : launch_(launch),
        number_(static_cast<int>(blockIdx.x)),
        lane_(static_cast<int>(blockIdx.y)),
        gave_up_(gave_up),
        state_(launch.self.states[number_ * kMostLanes + lane_]) {}

  __device__ const Launch& launch() const { return launch_; }
  __device__ const DeviceRank& self() const { return launch_.self; }
  __device__ int number() const { return number_; }
  __device__ uint64_t epoch() const { return state_.epoch; }
  __device__ unsigned parity() const { return state_.epoch & 1; }

  __device__ std::byte* block(int rank) const { return self().blocks[rank]; }
  __device__ std::byte* signals(int rank) const { return block(rank) + BlockLayout::signals_at(number_, parity()); }
  __device__ std::byte* scratch(int rank) const { return block(rank) + BlockLayout::scratch_at(number_, parity()); }

  // Begins an epoch, whose half of the memory was last used in epoch - 2. For all threads; false: given up.
  __device__ bool begin() {
    ++state_.epoch;
    if (state_.epoch <= 2 || state_.everyone_completed >= state_.epoch - 2) return true;
    state_.everyone_completed = state_.epoch - 2;
    return await_everyone(state_.epoch - 2);
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
  __device__ void give_up(StrandFailure::State why, int peer, int operation, uint32_t seen_call,
                          uint64_t seen_epoch) const {
    StrandFailure failure;
    failure.state = why;
    failure.peer = peer;
    failure.operation = operation;
    failure.expected_call = launch_.call;
    failure.seen_call = seen_call;
    failure.expected_epoch = state_.epoch;
    failure.seen_epoch = seen_epoch;
    report(gave_up_, self().failures + number_ * kMostLanes + lane_, failure);
  }

 private:
  __device__ void leave() const {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < speaks_for()) self().states[number_ * kMostLanes + lane_ + thread] = state_;
  }

  // The last lane of a launch stands for those that the launch does not have.
  __device__ int speaks_for() const { return lane_ == static_cast<int>(gridDim.y) - 1 ? kMostLanes - lane_ : 1; }

  // A thread for each lane of each rank. Peers tell what they have completed where somebody may wait for it; else it is
  // there to be asked for.
  __device__ bool await_everyone(uint64_t epoch) const {
    const int peer = static_cast<int>(threadIdx.x) / kMostLanes;
    bool came = true;
    if (peer < self().ranks) came = await_completion(peer, threadIdx.x % kMostLanes, epoch);
    return __syncthreads_and(came);
  }

  __device__ bool await_completion(int peer, int lane, uint64_t epoch) const {
    const size_t word = BlockLayout::completed_at(number_, peer, lane);
    Patience patience;
    for (;;) {
      uint64_t seen = words::load_acquire(block(self().rank) + word);
      if (seen < epoch) seen = words::load_acquire(block(peer) + word);
      if (seen >= epoch) return true;
      if (!patience.is_over(self())) continue;
      give_up(StrandFailure::kTimedOut, peer, -1, 0, seen);
      return false;
    }
  }

  static __device__ __noinline__ void report(int* gave_up, StrandFailure* to, const StrandFailure failure) {
    if (atomicCAS(gave_up, 0, 1) != 0) return;
    to->peer = failure.peer;
    to->operation = failure.operation;
    to->expected_call = failure.expected_call;
    to->seen_call = failure.seen_call;
    to->expected_epoch = failure.expected_epoch;
    to->seen_epoch = failure.seen_epoch;
    __threadfence_system();
    *static_cast<volatile uint32_t*>(&to->state) = failure.state;
  }

  // On this rank, and on the first `peers` ranks. Only reads have to be over before others may see this, for what they
  // want is to write. The barrier before it came after every load's value was used, so a plain store suffices; a
  // release would wait for stores to peers as well.
  __device__ void publish_completion(int peers) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int peer = thread / kMostLanes, lane = lane_ + thread % kMostLanes;
    if (lane >= lane_ + speaks_for() || peer >= max(peers, 1)) return;
    words::store_relaxed(block(peers == 0 ? self().rank : peer) + BlockLayout::completed_at(number_, self().rank, lane),
                         state_.epoch);
  }

  const Launch& launch_;
  const int number_, lane_;
  int* gave_up_;  // shared memory
  StrandState state_;
};

}  // namespace plait
