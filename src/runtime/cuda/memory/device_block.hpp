// The memory that a rank's GPU shares with its peers, and what it remembers between launches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/queue_loop.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

inline constexpr uint32_t kWarpThreads = 32;
inline constexpr size_t kLinkLineBytes = 128;       // what links carry at once
inline constexpr uint32_t kWholeWarp = 0xffffffff;  // all of them, in votes and shuffles
// A word that a peer waits for: a count in its lower bits, and above it a tag that says what is counted.
inline constexpr int kCountBits = 40, kTagBits = 64 - kCountBits;
inline constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr uint32_t tag_of(uint64_t what) { return static_cast<uint32_t>(what & ((uint64_t{1} << kTagBits) - 1)); }
inline constexpr int kMostDeviceRanks = 16;
inline constexpr int kAllChannels = kMostChannels + kMostHostChannels;  // the last ones are of a HostPath
inline constexpr int kMostQueues = 3;            // of a rank in a plan; each is a CTA of the channel
inline constexpr int kMostMessageChannels = 32;  // of a message from one rank to another

// What a rank's barriers (barrier_kernel.hpp) are of. Each has words and counts of its own, since a rank makes calls
// with all others, and messages with one other, in orders that have nothing to do with each other.
enum class BarrierKind : uint8_t { kCollective, kSend, kReceive };
inline constexpr int kBarrierKinds = 3;
// Of the peer.
PLAIT_HOST_DEVICE constexpr BarrierKind counterpart(BarrierKind kind) {
  if (kind == BarrierKind::kCollective) return kind;
  return kind == BarrierKind::kSend ? BarrierKind::kReceive : BarrierKind::kSend;
}
PLAIT_HOST_DEVICE constexpr int barrier_index(BarrierKind kind, int peer) {
  return static_cast<int>(kind) * kMostDeviceRanks + peer;
}
inline constexpr int kBarriers = kBarrierKinds * kMostDeviceRanks;

// Where things lie in a rank's block. Every channel but those of a HostPath has signals, scratch and packets of its
// own, twice, for even and odd epochs: an epoch uses its half once every rank is done with the one two before (as on
// the host, see host/segment.hpp). They stay a channel's own however many channels a launch has, since ranks may be in
// different launches at one time.
//
// Packets and lines have memory that nothing else is ever written to: any word of it is a flag of an epoch or none.
//
// All of it is constant, so that a kernel finds an address with one multiplication.
struct BlockLayout {
  static constexpr size_t kSignalStride = 16;
  // Per channel and parity: 18 MiB of scratch for all channels, 1 MiB of packets (over 12 ranks, 11 slots of 48
  // packets), 7 MiB of lines, and little for signals.
  static constexpr int kSignals = 128;
  static constexpr size_t kScratchBytes = 144 << 10, kLlBytes = 8448, kLl128Bytes = 56 << 10;
  static_assert(kScratchBytes % 128 == 0 && kLlBytes % 128 == 0 && kLl128Bytes % 128 == 0);

  // The last epoch that each queue of each rank has completed, of those that somebody may wait for (EpochEnd), told by
  // that rank: a word for each.
  PLAIT_HOST_DEVICE static constexpr size_t completed_at(int channel, int rank, int queue) {
    return static_cast<size_t>((channel * kMostDeviceRanks + rank) * kMostQueues + queue) * sizeof(uint64_t);
  }
  PLAIT_HOST_DEVICE static constexpr size_t signals_at(int channel, unsigned parity) {
    return completed_at(kAllChannels, 0, 0) + half(channel, parity) * kSignals * kSignalStride;
  }
  PLAIT_HOST_DEVICE static constexpr size_t scratch_at(int channel, unsigned parity) {
    return signals_at(kMostChannels, 0) + half(channel, parity) * kScratchBytes;
  }
  PLAIT_HOST_DEVICE static constexpr size_t ll_at(int channel, unsigned parity) {
    return scratch_at(kMostChannels, 0) + half(channel, parity) * kLlBytes;
  }
  PLAIT_HOST_DEVICE static constexpr size_t ll128_at(int channel, unsigned parity) {
    return ll_at(kMostChannels, 0) + half(channel, parity) * kLl128Bytes;
  }
  // Messages between two ranks: how many pieces each channel was sent by a rank, how many of those that this rank sent
  // to another have been taken, and inboxes for the data of all other ranks (see p2p_kernel.hpp).
  static constexpr size_t kMessageWordStride = 64;
  static constexpr size_t kFifoBytes = 5568 << 10;
  PLAIT_HOST_DEVICE static constexpr size_t tail_at(int from, uint32_t channel) {
    return ll128_at(kMostChannels, 0) + message_word(from, channel);
  }
  PLAIT_HOST_DEVICE static constexpr size_t head_at(int to, uint32_t channel) {
    return tail_at(kMostDeviceRanks, 0) + message_word(to, channel);
  }
  PLAIT_HOST_DEVICE static constexpr size_t fifos_at() { return head_at(kMostDeviceRanks, 0); }
  // What each rank has signalled to this one's barriers.
  PLAIT_HOST_DEVICE static constexpr size_t barrier_at(BarrierKind kind, int from) {
    return fifos_at() + kFifoBytes + static_cast<size_t>(barrier_index(kind, from)) * kMessageWordStride;
  }
  PLAIT_HOST_DEVICE static constexpr size_t total_bytes() { return barrier_at(BarrierKind::kCollective, kBarriers); }

 private:
  PLAIT_HOST_DEVICE static constexpr size_t message_word(int peer, uint32_t channel) {
    return (static_cast<size_t>(peer) * kMostMessageChannels + channel) * kMessageWordStride;
  }
  PLAIT_HOST_DEVICE static constexpr size_t half(int channel, unsigned parity) {
    return static_cast<size_t>(channel) * 2 + parity;
  }
};

// The same, in host memory next to a rank, of channels whose data goes through there. What ranks tell each other of
// epochs completed stays in the blocks.
struct HostBlockLayout {
  static constexpr size_t kScratchBytes = 384 << 10;
  static_assert(kScratchBytes % 128 == 0 && BlockLayout::kSignals * BlockLayout::kSignalStride % 128 == 0);

  PLAIT_HOST_DEVICE static constexpr size_t signals_at(int channel, unsigned parity) {
    return half(channel, parity) * BlockLayout::kSignals * BlockLayout::kSignalStride;
  }
  PLAIT_HOST_DEVICE static constexpr size_t scratch_at(int channel, unsigned parity) {
    return signals_at(kAllChannels, 0) + half(channel, parity) * kScratchBytes;
  }
  PLAIT_HOST_DEVICE static constexpr size_t total_bytes() { return scratch_at(kAllChannels, 0); }

 private:
  PLAIT_HOST_DEVICE static constexpr size_t half(int channel, unsigned parity) {
    return static_cast<size_t>(channel - kMostChannels) * 2 + parity;
  }
};

// What a queue of a channel remembers from launch to launch, in device memory: so that a launch replayed from a CUDA
// graph counts on. Its CTA's while a launch runs, from await_launch_before() on; the last queue's CTA also writes for
// queues that the launch does not have.
struct alignas(16) ChannelState {
  uint64_t epoch = 0;               // runs of a plan over one slice so far
  uint64_t everyone_completed = 0;  // the last epoch that every rank is known to be done with
  int gave_up = 0;                  // not 0: it has reported why, and begins nothing more
};

// Why a wait did not end: in host memory that the GPU writes. `state` is written last.
struct ChannelFailure {
  enum State : uint32_t { kNone, kTimedOut, kOtherCall, kOtherSize };
  uint32_t state = kNone;
  int32_t peer = -1;  // who was waited for
  // Of the plan's queue. Others are no operation's: that all are done with an earlier epoch, or data with its flag in
  // it.
  enum Wait : int32_t { kEarlierEpoch = -1, kData = -2 };
  int32_t operation = kEarlierEpoch;
  uint32_t expected_call = 0, seen_call = 0;  // signatures (signals only)
  uint64_t expected_epoch = 0,
           seen_epoch = 0;  // of messages: pieces, or bytes where sizes differ; of barriers: signals
};

// What kernels and the host tell each other, in host memory.
struct Reports {
  ChannelFailure channels[kAllChannels * kMostQueues];
  ChannelFailure receives[kMostDeviceRanks], sends[kMostDeviceRanks];  // by peer
  ChannelFailure barriers[kBarriers];                                  // by barrier_index()
  uint32_t aborted = 0;  // not 0: the communicator has failed, and whoever waits gives up
};

}  // namespace plait
