// Messages from one rank to another on GPUs: one launch performs all sends and receives of an exchange.
//
// Each ordered pair of ranks has a fifo: memory at the receiver, an inbox, that the sender stores to. A message is
// cut into pieces, and a channel (a CTA) of the sender brings a piece to the channel of its number at the
// receiver, which copies it out. A channel has some slots of the inbox for itself, a word that says how many pieces
// came, and one at the sender that says how many were taken. It waits for its counterpart only, within bounds, so
// channels need no barriers among each other, and a message no more than two ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/memory/device_rank.hpp"

namespace plait {

inline constexpr uint32_t kSlots = 4;  // of a channel: a power of two; a CTA has a barrier for each

// How inboxes are cut: the same on all ranks of a communicator.
struct FifoShape {
  uint32_t channels = 0;    // of a fifo
  uint32_t slots = 0;       // of a channel
  uint32_t slot_bytes = 0;  // header and data
  uint32_t data_bytes = 0;  // of a slot

  // As many channels as the GPU, of so many processors, holds at once when all of its ranks send to and receive from
  // every other; at least one, though many ranks on one GPU may then have to wait until others are done.
  static FifoShape of(int ranks, int ranks_per_device, int sm_count);
  // A message of `bytes` is cut into pieces of so many: for every channel one, if they are not too small.
  uint32_t piece_bytes(uint64_t bytes) const;

  PLAIT_HOST_DEVICE size_t fifo_bytes() const { return static_cast<size_t>(channels) * slots * slot_bytes; }
  // Where at rank `to` the slots of channel 0 for what comes from rank `from` are.
  PLAIT_HOST_DEVICE size_t fifo_at(int from, int to) const {
    return BlockLayout::fifos_at() + static_cast<size_t>(from < to ? from : from - 1) * fifo_bytes();
  }
};

// The first word of a slot: how long the whole message is, since the receiver may expect another.
inline constexpr uint32_t kSlotHeader = 128;

// One end of a message.
struct DeviceMessage {
  uint64_t buffer = 0;  // an address
  uint64_t bytes = 0;
  uint32_t piece_bytes = 0;
};

// The messages of one kind with one peer, in their order.
struct MessageRow {
  uint8_t peer = 0;
  bool sends = false;
  uint16_t first = 0;  // of `messages`
  uint16_t count = 0;
};

// What a rank sends to itself, copied beside the messages.
struct OwnCopy {
  uint64_t from = 0, to = 0;  // addresses
  uint64_t bytes = 0;
};

inline constexpr int kMostMessages = 64;  // of a launch
inline constexpr int kMostOwnCopies = 8;
inline constexpr int kMostRows = 2 * (kMostDeviceRanks - 1);
inline constexpr uint32_t kMostP2pThreads = 512 + kWarpThreads;  // those that copy, and a warp that signals

// Pieces that channels have sent to and received from each rank so far: in device memory, like ChannelState.
struct MessageState {
  uint64_t pieces[2][kMostDeviceRanks][kMostMessageChannels];  // received, sent
};

// An exchange, passed to the kernel by value.
struct P2pLaunch {
  DeviceRank self;
  MessageState* state = nullptr;
  ChannelFailure* failures = nullptr;  // host memory: of receives from each rank, then of sends
  FifoShape shape;
  MessageRow rows[kMostRows];  // a row of CTAs for each
  DeviceMessage messages[kMostMessages];
  uint32_t own_count = 0;  // if there are any, a last row is for them
  uint32_t own_ctas = 0;   // of it
  OwnCopy own[kMostOwnCopies];
};

// What cudaLaunchKernel takes, with a P2pLaunch, a grid of (channels, rows and perhaps one row more) and 64 to
// kMostP2pThreads threads.
const void* p2p_kernel();

}  // namespace plait
