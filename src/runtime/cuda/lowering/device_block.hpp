// Layout of the memory that a rank's GPU shares with its peers, and of the state that it keeps between launches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/queue_loop.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

inline constexpr uint32_t kWarpThreads = 32;
inline constexpr size_t kLinkLineBytes = 128;       // the unit in which links carry data
inline constexpr uint32_t kWholeWarp = 0xffffffff;  // mask of all threads of a warp, for votes and shuffles
// A flag that a peer polls holds a count in its lower bits, and above it a tag that says what is counted.
inline constexpr int kCountBits = 40, kTagBits = 64 - kCountBits;
inline constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr uint32_t tag_of(uint64_t what) { return static_cast<uint32_t>(what & ((uint64_t{1} << kTagBits) - 1)); }
inline constexpr int kMostDeviceRanks = 16;
inline constexpr int kAllChannels = kMostChannels + kMostHostChannels;  // the last ones serve a HostPath
inline constexpr int kMostQueues = 3;            // per rank of a plan; each is a CTA of the channel
inline constexpr int kMostMessageChannels = 32;  // per message from one rank to another

// A barrier (barrier_kernel.hpp) belongs to a collective call or to one direction of messages. Each kind has its own
// flags and counts, since calls with all ranks and messages with single ranks come in independent orders.
enum class BarrierKind : uint8_t { kCollective, kSend, kReceive };
inline constexpr int kBarrierKinds = 3;
// The kind of the peer's end of such a barrier.
PLAIT_HOST_DEVICE constexpr BarrierKind counterpart(BarrierKind kind) {
  if (kind == BarrierKind::kCollective) return kind;
  return kind == BarrierKind::kSend ? BarrierKind::kReceive : BarrierKind::kSend;
}
PLAIT_HOST_DEVICE constexpr int barrier_index(BarrierKind kind, int peer) {
  return static_cast<int>(kind) * kMostDeviceRanks + peer;
}
inline constexpr int kBarriers = kBarrierKinds * kMostDeviceRanks;

// The memory of a launch's channels of one kind, in a rank's block; `Place` says how many there are and where they lie.
// Every channel has its own signals and scratch. Each has two halves, for even and odd epochs: an epoch uses its half
// once every rank is done with the epoch two before it (as on the host, see host/segment.hpp). The memory of a channel
// does not depend on how many channels a launch has, since ranks may be in different launches at one time.
//
// All offsets are constants, so that a kernel finds an address with one multiplication.
template <class Place>
struct ChannelRoom {
  static constexpr int kQueues = Place::kQueues;    // of a channel
  static constexpr int kSignals = Place::kSignals;  // of a channel and parity
  static constexpr size_t kSignalStride = 16;
  static constexpr size_t kScratchBytes = 144 << 10;  // of a channel and parity
  static_assert(kScratchBytes % kLinkLineBytes == 0);

  // States and failures of the queues of all rooms are in one table.
  static constexpr int kFirstState = Place::kFirstState, kStates = Place::kChannelsWithStates * kQueues;
  PLAIT_HOST_DEVICE static constexpr int state_of(int channel, int queue) {
    return kFirstState + channel * kQueues + queue;
  }
  // A flag for each queue of each rank, which that rank stores: the last epoch that it has completed, of those whose
  // completion somebody may wait for (EpochEnd).
  PLAIT_HOST_DEVICE static constexpr size_t completed_at(int channel, int rank, int queue) {
    const auto flag = static_cast<size_t>((channel * kMostDeviceRanks + rank) * kQueues + queue);
    return Place::kFirstByte + flag * sizeof(uint64_t);
  }
  PLAIT_HOST_DEVICE static constexpr size_t signals_at(int channel, unsigned parity) {
    return completed_at(Place::kChannelsWithStates, 0, 0) + half(channel, parity) * kSignals * kSignalStride;
  }
  PLAIT_HOST_DEVICE static constexpr size_t scratch_at(int channel, unsigned parity) {
    return whole_lines(signals_at(Place::kChannels, 0)) + half(channel, parity) * kScratchBytes;
  }
  PLAIT_HOST_DEVICE static constexpr size_t end() { return scratch_at(Place::kChannels, 0); }

 private:
  PLAIT_HOST_DEVICE static constexpr size_t half(int channel, unsigned parity) {
    return static_cast<size_t>(channel) * 2 + parity;
  }
  PLAIT_HOST_DEVICE static constexpr size_t whole_lines(size_t bytes) {
    return (bytes + kLinkLineBytes - 1) / kLinkLineBytes * kLinkLineBytes;
  }
};

// Ordinary channels: 18 MiB of scratch. A HostPath's channels have states here, and their memory in host memory.
struct OrdinaryPlace {
  static constexpr int kQueues = kMostQueues, kSignals = 128;
  static constexpr int kChannels = kMostChannels, kChannelsWithStates = kAllChannels;
  static constexpr int kFirstState = 0;
  static constexpr size_t kFirstByte = 0;
};
using OrdinaryRoom = ChannelRoom<OrdinaryPlace>;

// The layout of a rank's block. It begins with the OrdinaryRoom, and ends with the LongRoom.
//
// The memory for LL and LL128 is used for nothing else: the place of a flag always holds the flag of some epoch, or 0.
struct BlockLayout {
  // Per channel and parity. For all channels together this is 1 MiB for LL (with 12 ranks, 11 slots of 48 lines), and 7
  // MiB for LL128.
  static constexpr size_t kLlBytes = 8448, kLl128Bytes = 56 << 10;
  static_assert(kLlBytes % kLinkLineBytes == 0 && kLl128Bytes % kLinkLineBytes == 0);

  PLAIT_HOST_DEVICE static constexpr size_t ll_at(int channel, unsigned parity) {
    return OrdinaryRoom::end() + half(channel, parity) * kLlBytes;
  }
  PLAIT_HOST_DEVICE static constexpr size_t ll128_at(int channel, unsigned parity) {
    return ll_at(kMostChannels, 0) + half(channel, parity) * kLl128Bytes;
  }
  // Messages between two ranks (see p2p_kernel.hpp). For each channel: the tail counts the pieces that a rank has sent
  // here, the head those that another rank has received from here. The FIFOs for data from all other ranks follow.
  static constexpr size_t kMessageWordStride = 64;
  static constexpr size_t kFifoBytes = 5568 << 10;
  PLAIT_HOST_DEVICE static constexpr size_t tail_at(int from, uint32_t channel) {
    return ll128_at(kMostChannels, 0) + message_word(from, channel);
  }
  PLAIT_HOST_DEVICE static constexpr size_t head_at(int to, uint32_t channel) {
    return tail_at(kMostDeviceRanks, 0) + message_word(to, channel);
  }
  PLAIT_HOST_DEVICE static constexpr size_t fifos_at() { return head_at(kMostDeviceRanks, 0); }
  // The flag of a barrier of this rank, which rank `from` stores.
  PLAIT_HOST_DEVICE static constexpr size_t barrier_at(BarrierKind kind, int from) {
    return fifos_at() + kFifoBytes + static_cast<size_t>(barrier_index(kind, from)) * kMessageWordStride;
  }
  PLAIT_HOST_DEVICE static constexpr size_t long_room_at() { return barrier_at(BarrierKind::kCollective, kBarriers); }
  PLAIT_HOST_DEVICE static constexpr size_t total_bytes();

 private:
  PLAIT_HOST_DEVICE static constexpr size_t message_word(int peer, uint32_t channel) {
    return (static_cast<size_t>(peer) * kMostMessageChannels + channel) * kMessageWordStride;
  }
  PLAIT_HOST_DEVICE static constexpr size_t half(int channel, unsigned parity) {
    return static_cast<size_t>(channel) * 2 + parity;
  }
};

// The channels of long plans, with more queues and signals: 5 MiB together. Nothing that ordinary channels use is among
// it, so their launches cost the same.
struct LongPlace {
  static constexpr int kQueues = kLongQueues, kSignals = 1024;
  static constexpr int kChannels = kLongChannels, kChannelsWithStates = kLongChannels;
  static constexpr int kFirstState = OrdinaryRoom::kStates;
  static constexpr size_t kFirstByte = BlockLayout::long_room_at();
};
using LongRoom = ChannelRoom<LongPlace>;

PLAIT_HOST_DEVICE constexpr size_t BlockLayout::total_bytes() { return LongRoom::end(); }
inline constexpr int kAllStates = OrdinaryRoom::kStates + LongRoom::kStates;

// The same for the channels of a HostPath: their block is in host memory, next to the rank. The flags of completed
// epochs stay in the GPUs' blocks.
struct HostBlockLayout {
  static constexpr size_t kScratchBytes = 384 << 10;
  static_assert(kScratchBytes % kLinkLineBytes == 0);
  static_assert(OrdinaryRoom::kSignals * OrdinaryRoom::kSignalStride % kLinkLineBytes == 0);

  PLAIT_HOST_DEVICE static constexpr size_t signals_at(int channel, unsigned parity) {
    return half(channel, parity) * OrdinaryRoom::kSignals * OrdinaryRoom::kSignalStride;
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

// The state of a channel's queue between launches. It is in device memory, so that a launch replayed from a CUDA graph
// goes on counting. While a launch runs, from await_launch_before() on, only the queue's CTA uses it; the CTA of
// the last queue also writes the state of queues that the launch does not have.
struct alignas(16) ChannelState {
  uint64_t epoch = 0;               // runs of a plan over one slice so far
  uint64_t everyone_completed = 0;  // the last epoch that every rank is known to be done with
  int gave_up = 0;                  // not 0: the queue has reported why, and starts nothing more
};

// Why a wait did not end, in host memory that the GPU writes. `state` is written last.
struct ChannelFailure {
  enum State : uint32_t { kNone, kTimedOut, kOtherCall, kOtherSize };
  uint32_t state = kNone;
  int32_t peer = -1;  // the rank that was waited for
  // An operation of the plan's queue, or one of two waits that are no operation: for all ranks to be done with an
  // earlier epoch, or for data of LL or LL128.
  enum Wait : int32_t { kEarlierEpoch = -1, kData = -2 };
  int32_t operation = kEarlierEpoch;
  uint32_t expected_call = 0, seen_call = 0;  // signatures (Simple only)
  // Messages: pieces, or bytes if the sizes differ. Barriers: signals.
  uint64_t expected_epoch = 0, seen_epoch = 0;
};

// Reports of kernels to the host, and the host's request to give up; in host memory.
struct Reports {
  ChannelFailure channels[kAllStates];
  ChannelFailure receives[kMostDeviceRanks], sends[kMostDeviceRanks];  // by peer
  ChannelFailure barriers[kBarriers];                                  // by barrier_index()
  uint32_t aborted = 0;  // not 0: the communicator has failed, and every wait gives up
};

}  // namespace plait
