// From messages to launches of the kernel in p2p_kernel.hpp.
#pragma once

#include <span>
#include <vector>

#include "runtime/cuda/p2p/p2p_kernel.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

// What one launch performs: rows of messages that do not wait for each other.
struct P2pPart {
  std::vector<MessageRow> rows;
  std::vector<DeviceMessage> messages;
  uint32_t channels = 0;     // that have something to do
  uint32_t piece_bytes = 0;  // of the longest piece
};

// `messages` with other ranks than `rank`, in as few launches as they fit in. Which launch a message is in depends only
// on how many of its kind with the same peer are before it, so that both ends put it into the same one, and launches of
// different ranks cannot wait for each other in a circle.
std::vector<P2pPart> divide(std::span<const PeerMessage> messages, int rank, int ranks, const FifoShape& shape);

// Whether the launch of the first part may copy what the rank sends itself, beside so many messages in all. More is
// better copied by itself.
bool go_with_others(std::span<const OwnMessage> own, size_t messages);

struct P2pGrid {
  uint32_t ctas = 0, rows = 0, threads = 0;
};
// Fills `launch`, which has its shape, with a part and what the rank sends itself beside it.
P2pGrid prepare_p2p(const P2pPart& part, std::span<const OwnMessage> own, P2pLaunch& launch);

}  // namespace plait
