// A barrier kernel performs the signals and waits of queues whose copies are performed by copy engines. Copy engines
// cannot signal or wait with bounds. One small launch comes before the copies and one after them, so that no SM is busy
// while data moves. Only a rank that just sends a message waits in a barrier kernel, with one warp.
//
// A launch performs the signals and waits of all queues of a rank at once. So the copies of a queue also wait for what
// the rank's other queues wait for before their copies. This does not deadlock: in every plan, what a queue waits for
// before its copies, its peer signals before its own copies. The same holds for messages, since a rank receives one at
// a time.
#pragma once

#include <cstdint>

#include "runtime/cuda/memory/device_rank.hpp"

namespace plait {

struct BarrierOperation {
  OpKind kind = OpKind::kSignal;  // or kWait
};

// The signals and waits of one queue before or after its copies. All are with one peer, which has the counterpart.
struct BarrierQueue {
  static constexpr int kMostOperations = 4;
  BarrierKind kind = BarrierKind::kCollective;
  uint8_t peer = 0;
  uint8_t count = 0;
  uint32_t agreement = 0;  // its tag, the same in the peer's queue, and not reused for a long time
  BarrierOperation operations[kMostOperations];
};

// Signals sent and awaited so far, by barrier_index(). They are in device memory, so that a launch replayed from a CUDA
// graph goes on counting.
struct BarrierState {
  uint64_t sent[kBarriers];
  uint64_t awaited[kBarriers];
  // How many CTAs of a launch have done their share (BetweenBarriersLaunch). By the launch's first barrier, since
  // launches with different barriers may run at the same time.
  uint32_t arrived[kBarriers];
};

// The common arguments of all barrier kernels of a call.
struct BarrierEndpoint {
  DeviceRank self;
  BarrierState* state = nullptr;
  ChannelFailure* failures = nullptr;  // host memory, by barrier_index()
};

inline constexpr int kMostBarrierQueues = kMostDeviceRanks - 1;  // per rank: one for each peer, or two for messages

// The argument of the barrier kernel, passed by value.
struct BarrierLaunch : BarrierEndpoint {
  BarrierQueue queues[kMostBarrierQueues];
};

// The kernel for cudaLaunchKernel. It takes a BarrierLaunch, one CTA, and a warp for each queue.
const void* barrier_kernel();

// Barriers before and after work of SMs, in one launch of several CTAs: a part of the argument of such a kernel.
struct BetweenBarriersLaunch : BarrierEndpoint {
  uint32_t queues = 0;
  BarrierQueue before[kMostBarrierQueues], after[kMostBarrierQueues];  // both by queue
};

}  // namespace plait
