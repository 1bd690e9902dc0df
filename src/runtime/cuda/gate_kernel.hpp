// A gate: the signals and waits of lanes that are otherwise performed by copy engines, which can do neither within
// bounds. One small launch before the copies and one after them, so that no SM is busy while data moves; who only sends
// a message waits in one of them, a warp.
//
// A launch performs the parts of all lanes of a rank at once, so the copies of a lane also wait for what stands before
// the copies of its rank's other lanes. Plans are so that this ends: what a lane with copies waits for before them, its
// peer signals before its own. So are messages, of which a rank receives one at a time.
#pragma once

#include <cstdint>

#include "runtime/cuda/device_rank.hpp"

namespace plait {

struct GateOperation {
  OpKind kind = OpKind::kSignal;  // or kWait
};

// One lane's part: all with one peer, whose lane for this rank is the counterpart.
struct GateLane {
  static constexpr int kMostOperations = 4;
  GateWay way = GateWay::kCollective;
  uint8_t peer = 0;
  uint8_t count = 0;
  uint32_t agreement = 0;  // its tag: that of the peer's lane, and of no other agreement for a long time
  GateOperation operations[kMostOperations];
};

// Signals sent and awaited so far, by gate_index(): in device memory, so that a launch replayed from a CUDA graph
// counts on.
struct GateState {
  uint64_t sent[kGates];
  uint64_t awaited[kGates];
  // CTAs that have done their share, of a launch that has several (GatedLaunch): by its first gate, since launches of
  // different gates may run at one time.
  uint32_t arrived[kGates];
};

// What all gates of a call are given.
struct GateEnd {
  DeviceRank self;
  GateState* state = nullptr;
  StrandFailure* failures = nullptr;  // host memory, by gate_index()
};

inline constexpr int kMostGateLanes = kMostDeviceRanks - 1;  // of a rank: with each other one, or two of messages

// A gate, passed to the kernel by value.
struct GateLaunch : GateEnd {
  GateLane lanes[kMostGateLanes];
};

// What cudaLaunchKernel takes, with a GateLaunch, one CTA, and a warp for each lane.
const void* gate_kernel();

// Gates before and behind something that SMs do, in one launch of several CTAs: what its kernel is passed, by value,
// among other things.
struct GatedLaunch : GateEnd {
  uint32_t lanes = 0;
  GateLane before[kMostGateLanes], after[kMostGateLanes];  // of the same lanes in the same order
};

}  // namespace plait
