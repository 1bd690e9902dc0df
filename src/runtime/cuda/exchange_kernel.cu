// The kernel of messages.
#include "runtime/cuda/exchange_kernel.hpp"
#include "runtime/cuda/strand.cuh"

namespace plait {
namespace {

constexpr int kWarpThreads = 32;

// Copies of a warp. One side is a slot and has any alignment that is asked for, the other the caller's memory.
template <class Word>
__device__ uint32_t copy_words(std::byte* to, const std::byte* from, uint32_t bytes) {
  constexpr uint32_t kAtOnce = 8;
  const uint32_t words = bytes / sizeof(Word);
  auto* const out = reinterpret_cast<Word*>(to);
  const auto* const in = reinterpret_cast<const Word*>(from);
  for (uint32_t i = threadIdx.x % kWarpThreads; i < words; i += kWarpThreads * kAtOnce) {
    Word values[kAtOnce];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      if (i + u * kWarpThreads < words) values[u] = in[i + u * kWarpThreads];
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      if (i + u * kWarpThreads < words) out[i + u * kWarpThreads] = values[u];
    }
  }
  return words * sizeof(Word);
}

__device__ void copy(std::byte* to, const std::byte* from, uint32_t bytes) {
  const auto both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  uint32_t done = 0;
  if (both % sizeof(uint4) == 0) {
    done = copy_words<uint4>(to, from, bytes);
  } else if (both % sizeof(uint2) == 0) {
    done = copy_words<uint2>(to, from, bytes);
  } else if (both % sizeof(uint32_t) == 0) {
    done = copy_words<uint32_t>(to, from, bytes);
  }
  copy_words<uint8_t>(to + done, from + done, bytes - done);
}

// One strand at one end of a channel. All members are the same in all threads of the warp.
class ChannelEnd {
 public:
  __device__ ChannelEnd(const ExchangeLaunch& launch, const MessageQueue& queue, uint32_t strand)
      : launch_(launch),
        queue_(queue),
        strand_(strand),
        pieces_(launch.state->pieces[queue.sends][queue.peer][strand]) {
    const DeviceRank& self = launch.self;
    const int from = queue.sends ? self.rank : queue.peer, to = queue.sends ? queue.peer : self.rank;
    const size_t ring_bytes = static_cast<size_t>(launch.shape.slots) * launch.shape.slot_bytes;
    slots_ = self.blocks[to] + launch.shape.inbox_at(from, to) + strand * ring_bytes;
    filled_ = self.blocks[to] + BlockLayout::filled_at(from, strand);
    emptied_ = self.blocks[from] + BlockLayout::emptied_at(to, strand);
  }

  // False: given up.
  __device__ bool perform(const DeviceMessage& message) {
    const uint64_t stride = static_cast<uint64_t>(message.piece_bytes) * launch_.shape.strands;
    uint64_t offset = static_cast<uint64_t>(message.piece_bytes) * strand_;
    bool is_first = strand_ == 0;  // a message without bytes has a piece, too
    for (; offset < message.bytes || is_first; offset += stride, is_first = false) {
      const uint64_t left = message.bytes - offset;
      const uint32_t bytes = left < message.piece_bytes ? static_cast<uint32_t>(left) : message.piece_bytes;
      auto* const part = reinterpret_cast<std::byte*>(message.buffer) + offset;
      if (!(queue_.sends ? send(part, bytes, message) : receive(part, bytes, message))) return false;
    }
    return true;
  }

  __device__ void leave() const {
    if (is_leader()) launch_.state->pieces[queue_.sends][queue_.peer][strand_] = pieces_;
  }

 private:
  __device__ static bool is_leader() { return threadIdx.x % kWarpThreads == 0; }

  __device__ std::byte* slot() const {
    return slots_ + (static_cast<uint32_t>(pieces_) & (launch_.shape.slots - 1)) * launch_.shape.slot_bytes;
  }

  __device__ bool send(const std::byte* part, uint32_t bytes, const DeviceMessage& message) {
    const uint64_t needed = pieces_ < launch_.shape.slots ? 0 : pieces_ + 1 - launch_.shape.slots;
    if (!await(emptied_, needed)) return false;
    std::byte* const to = slot();
    if (is_leader()) *reinterpret_cast<uint64_t*>(to) = message.bytes;
    copy(to + kSlotHeader, part, bytes);
    ++pieces_;
    __syncwarp();
    if (is_leader()) words::store_release(filled_, pieces_);
    return true;
  }

  __device__ bool receive(std::byte* part, uint32_t bytes, const DeviceMessage& message) {
    if (!await(filled_, pieces_ + 1)) return false;
    const std::byte* const from = slot();
    const uint64_t sent = *reinterpret_cast<const uint64_t*>(from);
    if (sent != message.bytes) {
      if (is_leader()) give_up(StrandFailure::kOtherSize, message.bytes, sent);
      return false;
    }
    copy(part, from + kSlotHeader, bytes);
    ++pieces_;
    // What was loaded has been used by every thread, so the sender may store again; that needs no release.
    __syncwarp();
    if (is_leader()) words::store_relaxed(emptied_, pieces_);
    return true;
  }

  // For all threads of the warp.
  __device__ bool await(const std::byte* word, uint64_t count) const {
    bool came = true;
    if (is_leader() && count > 0) came = poll(word, count);
    return __all_sync(kWarp, came);
  }

  __device__ bool poll(const std::byte* word, uint64_t count) const {
    Patience patience;
    for (;;) {
      const uint64_t seen = words::load_acquire(word);
      if (seen >= count) return true;
      if (!patience.is_over(launch_.self)) continue;
      give_up(StrandFailure::kTimedOut, count, seen);
      return false;
    }
  }

  // Over PCIe; only on the way out. Of several strands that report the same queue, any may win: they say the same.
  __device__ __noinline__ void give_up(StrandFailure::State why, uint64_t expected, uint64_t seen) const {
    StrandFailure* const to = launch_.failures + (queue_.sends ? kMostDeviceRanks : 0) + queue_.peer;
    to->peer = queue_.peer;
    to->expected_epoch = expected;
    to->seen_epoch = seen;
    __threadfence_system();
    *static_cast<volatile uint32_t*>(&to->state) = why;
  }

  const ExchangeLaunch& launch_;
  const MessageQueue& queue_;
  const uint32_t strand_;
  uint64_t pieces_;  // so far
  std::byte* slots_;
  std::byte* filled_;
  std::byte* emptied_;
};

__global__ void __launch_bounds__(kMostThreads, 1) run_exchange(const __grid_constant__ ExchangeLaunch launch) {
  const uint32_t strand = (blockIdx.x * blockDim.x + threadIdx.x) / kWarpThreads;
  if (strand >= launch.shape.strands) return;
  const MessageQueue& queue = launch.queues[blockIdx.y];
  ChannelEnd end(launch, queue, strand);
  for (int m = queue.first; m < queue.first + queue.count; ++m) {
    if (!end.perform(launch.messages[m])) return;
  }
  end.leave();
}

}  // namespace

const void* exchange_kernel() { return reinterpret_cast<const void*>(&run_exchange); }

}  // namespace plait
