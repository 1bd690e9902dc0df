// Bounded waits, and reports of waits that failed.
#pragma once

#include "runtime/cuda/device/ptx.cuh"
#include "runtime/cuda/memory/device_rank.hpp"

namespace plait {

// Bounds one thread's wait.
class BoundedSpin {
 public:
  // True once the time is over or the communicator has failed. Cheap: it rarely reads the clock and host memory.
  __device__ bool is_over(const DeviceRank& self) { return is_over(self.wait_nanoseconds, self.aborted); }
  __device__ bool is_over(uint64_t wait_nanoseconds, const uint32_t* aborted) {
    if (++polls_ % kPollsBetween != 0) return false;
    const uint64_t now = ptx::nanoseconds_now();
    if (start_ == 0) start_ = now;
    return now - start_ > wait_nanoseconds || ptx::load_relaxed(aborted) != 0;
  }

 private:
  static constexpr uint32_t kPollsBetween = 512;
  uint32_t polls_ = 0;
  uint64_t start_ = 0;
};

// Polls a flag that a peer stores with release, until stops(value) is true or the wait is over. Returns the last value.
template <class Stops>
__device__ uint64_t poll(const std::byte* word, const DeviceRank& self, const Stops& stops) {
  BoundedSpin spin;
  for (;;) {
    const uint64_t seen = ptx::load_acquire(word);
    if (stops(seen) || spin.is_over(self)) return seen;
  }
}

// Writes to host memory why a wait failed. Slow, over PCIe; only for a kernel that gives up.
__device__ inline void report_wait(ChannelFailure* to, ChannelFailure failure) {
  const uint32_t state = failure.state;
  failure.state = ChannelFailure::kNone;
  *to = failure;
  __threadfence_system();
  *static_cast<volatile uint32_t*>(&to->state) = state;
}

}  // namespace plait
