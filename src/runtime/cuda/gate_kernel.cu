// The kernel of gates.
#include "runtime/cuda/gate_kernel.hpp"
#include "runtime/cuda/strand.cuh"
#include "runtime/lane_loop.hpp"

namespace plait {
namespace {

// A word counts the signals that came so far, and its tag is that of the agreement that the last one is of.

// Performs a lane's part. One thread, for it has nothing to share; the lanes of a rank are in different warps, since
// they wait for different peers.
class Gate {
 public:
  __device__ Gate(const GateLaunch& launch, int peer)
      : launch_(launch), peer_(peer), sent_(launch.state->sent[peer]), awaited_(launch.state->awaited[peer]) {}

  __device__ void fold(const GateOperation&) const {}

  // What this rank has written or read before, its stream has completed.
  __device__ void signal(const GateOperation&) {
    ++sent_;
    const uint64_t value = static_cast<uint64_t>(launch_.agreement) << kCountBits | sent_;
    machine::store_release(launch_.self.blocks[peer_] + BlockLayout::gate_at(launch_.self.rank), value);
  }

  __device__ bool wait(const GateOperation&) {
    ++awaited_;
    const std::byte* const word = launch_.self.blocks[launch_.self.rank] + BlockLayout::gate_at(peer_);
    Patience patience;
    for (;;) {
      const uint64_t seen = machine::load_acquire(word);
      const uint64_t count = seen & kCountMask;
      const bool other_agreement = count == awaited_ && seen >> kCountBits != launch_.agreement;
      if (count >= awaited_ && !other_agreement) return true;
      if (!other_agreement && !patience.is_over(launch_.self)) continue;
      report_wait(launch_.failures + peer_, peer_,
                  other_agreement ? StrandFailure::kOtherCall : StrandFailure::kTimedOut, awaited_, count);
      return false;
    }
  }

  __device__ void leave() const {
    launch_.state->sent[peer_] = sent_;
    launch_.state->awaited[peer_] = awaited_;
  }

 private:
  const GateLaunch& launch_;
  const int peer_;
  uint64_t sent_, awaited_;
};

__global__ void run_gate(const __grid_constant__ GateLaunch launch) {
  if (threadIdx.x % kWarpThreads != 0) return;
  const GateLane& lane = launch.lanes[threadIdx.x / kWarpThreads];
  Gate gate(launch, lane.peer);
  int next = 0;
  if (advance_lane(lane.operations, lane.count, next, gate) == LaneState::kDone) gate.leave();
}

}  // namespace

const void* gate_kernel() { return reinterpret_cast<const void*>(&run_gate); }

}  // namespace plait
