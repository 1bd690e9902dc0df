// The kernel's end of the work queue: how its CTAs learn of requests, and how they answer. One thread of a CTA does all
// that (NVG-41); persistent_queue_test runs this source in all orders.
#pragma once

#include "runtime/cuda/device/bounded_spin.cuh"
#include "runtime/cuda/device/ptx.cuh"
#include "runtime/cuda/persistent/persistent_kernel.hpp"

namespace plait {

// Takes requests out of host memory, for CTA 0.
class RequestPoller {
 public:
  __device__ explicit RequestPoller(const QueueLaunch& launch) : launch_(launch), began_(ptx::nanoseconds_now()) {}

  // Waits for request `number`. Bounded: if none comes, or the communicator fails, it is to terminate, and the host
  // has been told that no request from `number` on will be taken.
  //
  // The acquire orders what the host and earlier kernels wrote before all that the CTA loads after its next barrier.
  __device__ Request next(uint64_t number) const {
    const uint64_t* const word = &launch_.host->requests[number % HostQueue::kEntries].word;
    const uint64_t since = ptx::nanoseconds_now();
    for (uint32_t polls = 0;; ++polls) {
      const uint64_t seen = ptx::load_acquire(word);
      if (lateness(seen, number) == 0) {
        const Request request = request_in(seen);
        if (request.terminates) leave(number);
        return request;
      }
      if (!is_to_leave(since, polls)) continue;
      leave(number - 1);
      return {.terminates = true};
    }
  }

 private:
  __device__ bool is_to_leave(uint64_t since, uint32_t polls) const {
    if (polls % kPollsBetween == 0 && ptx::load_relaxed(launch_.aborted) != 0) return true;
    const uint64_t now = ptx::nanoseconds_now();
    return now - since > launch_.idle_nanoseconds || now - began_ > launch_.longest_nanoseconds;
  }

  // The last that this kernel says to the host. `taken` comes first.
  __device__ void leave(uint64_t taken) const {
    ptx::store_relaxed(&launch_.host->taken, taken);
    ptx::store_release(&launch_.host->left, launch_.number);
  }

  static constexpr uint32_t kPollsBetween = 16;
  const QueueLaunch& launch_;
  const uint64_t began_;
};

// Hands a request on. The release orders what this thread acquired from the host, and the slot that its CTA copied
// before a barrier, before all that the others load.
__device__ inline void hand_on(DeviceQueue& queue, const Request& request, uint64_t command) {
  ptx::store_release(&queue.commands[command % HostQueue::kEntries].word, word_of(request, command));
}

// Waits for command `number` in GPU memory, and returns it. If its entry holds a later one, the requests up to that
// needed no CTA that has not come to them, such as this one; then it waits for the next.
//
// Bounded: CTA 0 passes a last command on within the bounds of its own waits. A CTA that hears nothing for longer, or
// sees that the communicator has failed, leaves; nobody answers then, and the host's own wait ends.
__device__ inline uint64_t next_command(const QueueLaunch& launch, uint64_t number) {
  BoundedSpin spin;
  for (;;) {
    const uint64_t seen = ptx::load_acquire(&launch.device->commands[number % HostQueue::kEntries].word);
    const uint64_t late = lateness(seen, number);
    if (late == 0) return seen;
    if (late < kLater) ++number;
    if (spin.is_over(launch.silent_nanoseconds, launch.aborted)) return word_of({.terminates = true}, number);
  }
}

// Takes request `number`, or for other CTAs than CTA 0 maybe a later one, and returns it as a command. CTA 0 has yet to
// hand on one that is new, once it has copied its slot.
__device__ inline uint64_t take(const RequestPoller& poller, const QueueLaunch& launch, bool polls, uint64_t number) {
  const uint64_t command = number + launch.number - 1;
  if (!polls) return next_command(launch, command);
  const Request request = poller.next(number);
  if (!request.is_new) hand_on(*launch.device, request, command);
  return word_of(request, command);
}

// Says that this CTA has performed its share; the last one to say so answers. After a barrier of the CTA: the fences
// order the stores of all CTAs before the answer.
__device__ inline void finish_share(const QueueLaunch& launch, const Request& request, uint64_t number) {
  if (request.ctas > 1) {
    uint32_t* const done = &launch.device->done[number % HostQueue::kEntries];
    __threadfence();
    if (atomicAdd(done, 1) != request.ctas - 1) return;
    *done = 0;
    __threadfence();
  }
  ptx::store_release(&launch.host->answered, number);
}

}  // namespace plait
