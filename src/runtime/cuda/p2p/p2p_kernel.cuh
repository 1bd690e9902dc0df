// The kernel of sends and receives: moves messages through FIFOs.
#pragma once

#include "runtime/cuda/device/bounded_spin.cuh"
#include "runtime/cuda/device/copy_bytes.cuh"
#include "runtime/cuda/device/ptx.cuh"
#include "runtime/cuda/p2p/p2p_kernel.hpp"

namespace plait {

inline constexpr int kP2pLoads = 4;  // loads of a thread that are under way at once

// One channel at one end of a FIFO: warps that copy, and a last warp that signals to the other end. Members have the
// same values in all threads.
class FifoEndpoint {
 public:
  __device__ FifoEndpoint(const P2pLaunch& launch, const MessageRow& row, int* gave_up)
      : launch_(launch),
        row_(row),
        channel_(blockIdx.x),
        copying_(blockDim.x - kWarpThreads),
        gave_up_(gave_up),
        pieces_(launch.state->pieces[row.sends][row.peer][channel_]) {
    const DeviceRank& self = launch.self;
    const int from = row.sends ? self.rank : row.peer, to = row.sends ? row.peer : self.rank;
    const size_t ring_bytes = static_cast<size_t>(launch.shape.slots) * launch.shape.slot_bytes;
    slots_ = self.blocks[to] + launch.shape.fifo_at(from, to) + channel_ * ring_bytes;
    tail_ = self.blocks[to] + BlockLayout::tail_at(from, channel_);
    head_ = self.blocks[from] + BlockLayout::head_at(to, channel_);
  }

  // False: given up.
  __device__ bool perform(const DeviceMessage& message) {
    const uint64_t stride = static_cast<uint64_t>(message.piece_bytes) * launch_.shape.channels;
    uint64_t offset = static_cast<uint64_t>(message.piece_bytes) * channel_;
    bool is_first = channel_ == 0;  // even an empty message has one piece
    for (; offset < message.bytes || is_first; offset += stride, is_first = false) {
      if (threadIdx.x >= copying_) {
        ptx::barrier_sync(slot() + 1, blockDim.x);
        if (static_cast<volatile int*>(gave_up_)[slot()] != 0) return false;
        if (threadIdx.x == copying_) tell(pieces_ + 1);
      } else {
        const bool done = move(message, offset, slots_ + slot() * launch_.shape.slot_bytes);
        ptx::barrier_arrive(slot() + 1, blockDim.x);
        if (!done) return false;
      }
      ++pieces_;
    }
    return true;
  }

  __device__ void leave() const {
    if (threadIdx.x == copying_) launch_.state->pieces[row_.sends][row_.peer][channel_] = pieces_;
  }

 private:
  // The slot of the next piece.
  __device__ uint32_t slot() const { return static_cast<uint32_t>(pieces_) & (launch_.shape.slots - 1); }

  // A CTA has 16 named barriers. The first is __syncthreads(), and each slot has one. The copying warps only arrive
  // there and go on, while the signalling warp waits for them, and for their stores to reach their destination. No warp
  // comes to a slot's barrier again before the signalling warp has left it. The slot is used again only after the peer
  // has answered its piece. The peer can do that only after the signalling warp has signalled (tell()).
  static constexpr int kCopyBarrier = 15;
  static_assert(kSlots < kCopyBarrier);

  // Copies a piece, with all copying warps. False: given up.
  __device__ bool move(const DeviceMessage& message, uint64_t offset, std::byte* slot) {
    const uint64_t left = message.bytes - offset;
    const uint32_t bytes = left < message.piece_bytes ? static_cast<uint32_t>(left) : message.piece_bytes;
    auto* const part = reinterpret_cast<std::byte*>(message.buffer) + offset;
    if (row_.sends) {
      const uint64_t needed = pieces_ < launch_.shape.slots ? 0 : pieces_ + 1 - launch_.shape.slots;
      if (!await(head_, needed)) return false;
      if (threadIdx.x == 0) *reinterpret_cast<uint64_t*>(slot) = message.bytes;
      copy_bytes<kP2pLoads, PeerSide::kDestination>(slot + kSlotHeader, part, bytes, threadIdx.x, copying_);
      return true;
    }
    if (!await(tail_, pieces_ + 1)) return false;
    const uint64_t sent = *reinterpret_cast<const uint64_t*>(slot);
    if (sent != message.bytes) {
      if (threadIdx.x == 0) give_up(ChannelFailure::kOtherSize, message.bytes, sent);
      return false;
    }
    copy_bytes<kP2pLoads, PeerSide::kSource>(part, slot + kSlotHeader, bytes, threadIdx.x, copying_);
    return true;
  }

  // Signals, by the signalling warp, after all others have arrived. A receiver needs no release: all values that it
  // loaded from the slot have been used by then, so the sender may store there again.
  __device__ void tell(uint64_t count) const {
    if (row_.sends) {
      ptx::store_release(tail_, count);
    } else {
      ptx::store_relaxed(head_, count);
    }
  }

  // Waits, in all copying warps. One thread polls for all: polling by many threads slows down the arrival of the flag.
  __device__ bool await(const std::byte* word, uint64_t count) const {
    return ptx::barrier_and<kCopyBarrier>(threadIdx.x != 0 || count == 0 || comes(word, count), copying_);
  }

  __device__ bool comes(const std::byte* word, uint64_t count) const {
    const uint64_t seen = poll(word, launch_.self, [count](uint64_t it) { return it >= count; });
    if (seen < count) give_up(ChannelFailure::kTimedOut, count, seen);
    return seen >= count;
  }

  __device__ void give_up(ChannelFailure::State why, uint64_t expected, uint64_t seen) const {
    ChannelFailure* const to = launch_.failures + (row_.sends ? kMostDeviceRanks : 0) + row_.peer;
    report(gave_up_ + slot(), to, {.state = why, .peer = row_.peer, .expected_epoch = expected, .seen_epoch = seen});
  }

  // Several channels may report the same row, and their words may mix: each word is true for one of them.
  static __device__ __noinline__ void report(int* gave_up, ChannelFailure* to, ChannelFailure failure) {
    *static_cast<volatile int*>(gave_up) = 1;
    report_wait(to, failure);
  }

  const P2pLaunch& launch_;
  const MessageRow& row_;
  const uint32_t channel_;
  const uint32_t copying_;  // threads
  int* const gave_up_;      // in shared memory, by slot: whether the copying warps gave up at its piece
  uint64_t pieces_;         // sent or received so far
  std::byte* slots_;
  std::byte* tail_;
  std::byte* head_;
};

__device__ inline void copy_own(const P2pLaunch& launch) {
  if (blockIdx.x >= launch.own_ctas) return;
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (uint32_t c = 0; c < launch.own_count; ++c) {
    const OwnCopy& copy = launch.own[c];
    copy_bytes<kP2pLoads, PeerSide::kSource>(reinterpret_cast<std::byte*>(copy.to),
                                             reinterpret_cast<const std::byte*>(copy.from), copy.bytes, thread,
                                             uint64_t{launch.own_ctas} * blockDim.x);
  }
}

__global__ void __launch_bounds__(kMostP2pThreads, 1) run_p2p(const __grid_constant__ P2pLaunch launch) {
  ptx::await_launch_before();
  if (launch.own_count > 0 && blockIdx.y == gridDim.y - 1) return copy_own(launch);
  int* const gave_up = ptx::shared_array<int, kSlots>();
  const MessageRow& row = launch.rows[blockIdx.y];
  FifoEndpoint end(launch, row, gave_up);
  if (threadIdx.x < kSlots) gave_up[threadIdx.x] = 0;
  __syncthreads();  // also before any thread returns
  for (int m = row.first; m < row.first + row.count; ++m) {
    if (!end.perform(launch.messages[m])) return;
  }
  ptx::let_next_launch_begin();
  end.leave();
}

}  // namespace plait
