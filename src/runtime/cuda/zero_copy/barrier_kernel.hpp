// A barrier: the signals and waits of queues that are otherwise performed by copy engines, which can do neither within
// bounds. One small launch before the copies and one after them, so that no SM is busy while data moves; who only sends
// a message waits in one of them, a warp.
//
// A launch performs the parts of all queues of a rank at once, so the copies of a queue also wait for what stands
// before the copies of its rank's other queues. Plans are so that this ends: what a queue with copies waits for before
// them, its peer signals before its own. So are messages, of which a rank receives one at a time.
#pragma once

#include <cstdint>

#include "runtime/cuda/memory/device_rank.hpp"

namespace plait {

struct BarrierOperation {
  OpKind kind = OpKind::kSignal;  // or kWait
};

// One queue's part: all with one peer, whose queue for this rank is the counterpart.
struct BarrierQueue {
  static constexpr int kMostOperations = 4;
  BarrierKind kind = BarrierKind::kCollective;
  uint8_t peer = 0;
  uint8_t count = 0;
  uint32_t agreement = 0;  // its tag: that of the peer's queue, and of no other agreement for a long time
  BarrierOperation operations[kMostOperations];
};

// Signals sent and awaited so far, by barrier_index(): in device memory, so that a launch replayed from a CUDA graph
// counts on.
struct BarrierState {
  uint64_t sent[kBarriers];
  uint64_t awaited[kBarriers];
  // CTAs that have done their share, of a launch that has several (BetweenBarriersLaunch): by its first barrier, since
  // launches of different barriers may run at one time.
  uint32_t arrived[kBarriers];
};

// What all barriers of a call are given.
struct BarrierEndpoint {
  DeviceRank self;
  BarrierState* state = nullptr;
  ChannelFailure* failures = nullptr;  // host memory, by barrier_index()
};

inline constexpr int kMostBarrierQueues = kMostDeviceRanks - 1;  // of a rank: with each other one, or two of messages

// A barrier, passed to the kernel by value.
struct BarrierLaunch : BarrierEndpoint {
  BarrierQueue queues[kMostBarrierQueues];
};

// What cudaLaunchKernel takes, with a BarrierLaunch, one CTA, and a warp for each queue.
const void* barrier_kernel();

// Barriers before and behind something that SMs do, in one launch of several CTAs: what its kernel is passed, by value,
// among other things.
struct BetweenBarriersLaunch : BarrierEndpoint {
  uint32_t queues = 0;
  BarrierQueue before[kMostBarrierQueues], after[kMostBarrierQueues];  // of the same queues in the same order
};

}  // namespace plait
