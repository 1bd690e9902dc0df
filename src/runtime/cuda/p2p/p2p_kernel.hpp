// Messages from one rank to another on GPUs: one launch performs all sends and receives of an exchange.
//
// Each ordered pair of ranks has a FIFO: memory at the receiver that the sender stores to. A message is cut into
// pieces. A channel (a CTA) of the sender stores a piece, and the receiver's channel of the same number copies it out.
// Each channel has its own slots of the FIFO and two flags: the tail, at the receiver, counts the pieces sent, and the
// head, at the sender, counts the pieces received. A channel waits only for its counterpart, and its waits are bounded.
// Channels therefore need no barriers between each other, and a message involves only two ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/memory/device_rank.hpp"

namespace plait {

inline constexpr uint32_t kSlots = 4;  // per channel: a power of two; a CTA has a named barrier for each

// How FIFOs are divided; the same on all ranks of a communicator.
struct FifoShape {
  uint32_t channels = 0;    // per FIFO
  uint32_t slots = 0;       // per channel
  uint32_t slot_bytes = 0;  // header and data
  uint32_t data_bytes = 0;  // data of a slot

  // The shape with as many channels as a GPU with `sm_count` SMs can run at once, while each of its ranks sends to and
  // receives from every other rank. At least one: with many ranks on one GPU, some may then have to wait until others
  // are done.
  static FifoShape of(int ranks, int ranks_per_device, int sm_count);
  // The size of the pieces of a message of `bytes`: one piece for every channel, unless they would be too small.
  uint32_t piece_bytes(uint64_t bytes) const;

  PLAIT_HOST_DEVICE size_t fifo_bytes() const { return static_cast<size_t>(channels) * slots * slot_bytes; }
  // The offset of the FIFO from rank `from` in the block of rank `to`. The slots of channel 0 come first.
  PLAIT_HOST_DEVICE size_t fifo_at(int from, int to) const {
    return BlockLayout::fifos_at() + static_cast<size_t>(from < to ? from : from - 1) * fifo_bytes();
  }
};

// A slot begins with the size of the whole message, so that the receiver notices if it expects another size.
inline constexpr uint32_t kSlotHeader = 128;

// One end of a message.
struct DeviceMessage {
  uint64_t buffer = 0;  // an address
  uint64_t bytes = 0;
  uint32_t piece_bytes = 0;
};

// The sends to one peer, or the receives from it, in order.
struct MessageRow {
  uint8_t peer = 0;
  bool sends = false;
  uint16_t first = 0;  // index into `messages`
  uint16_t count = 0;
};

// A message of a rank to itself, which is copied directly.
struct OwnCopy {
  uint64_t from = 0, to = 0;  // addresses
  uint64_t bytes = 0;
};

inline constexpr int kMostMessages = 64;  // per launch
inline constexpr int kMostOwnCopies = 8;
inline constexpr int kMostRows = 2 * (kMostDeviceRanks - 1);
inline constexpr uint32_t kMostP2pThreads = most_threads(KernelFamily::kP2p);  // a warp of them signals

// How many pieces each channel has received from and sent to each rank so far. In device memory, like ChannelState.
struct MessageState {
  uint64_t pieces[2][kMostDeviceRanks][kMostMessageChannels];  // received, sent
};

// The argument of the kernel, passed by value: an exchange, or a part of it.
struct P2pLaunch {
  DeviceRank self;
  MessageState* state = nullptr;
  ChannelFailure* failures = nullptr;  // host memory: for receives from each rank, then for sends to each
  FifoShape shape;
  MessageRow rows[kMostRows];  // each has a row of CTAs
  DeviceMessage messages[kMostMessages];
  uint32_t own_count = 0;  // if not 0, an extra last row of CTAs copies `own`
  uint32_t own_ctas = 0;   // CTAs of that row
  OwnCopy own[kMostOwnCopies];
};

// The kernel for cudaLaunchKernel. It takes a P2pLaunch, a grid of channels x rows (with the extra row, if there is
// one), and 64 to kMostP2pThreads threads.
const void* p2p_kernel();

}  // namespace plait
