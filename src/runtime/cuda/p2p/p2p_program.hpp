// Turns messages into launches of the kernel in p2p_kernel.hpp.
#pragma once

#include <span>
#include <vector>

#include "runtime/cuda/p2p/p2p_kernel.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

// The messages of one launch: its rows do not wait for each other.
struct P2pPart {
  std::vector<MessageRow> rows;
  std::vector<DeviceMessage> messages;
  uint32_t channels = 0;     // how many have something to do
  uint32_t piece_bytes = 0;  // size of the longest piece
};

// Divides the messages with ranks other than `rank` into as few launches as possible. The launch of a message depends
// only on how many messages of its kind with the same peer come before it. So both ends put it into the same launch,
// and launches of different ranks cannot wait for each other in a circle.
std::vector<P2pPart> divide(std::span<const PeerMessage> messages, int rank, int ranks, const FifoShape& shape);

// Whether the first launch should also copy the rank's messages to itself; `messages` is the number of all messages.
// Larger ones are better copied separately.
bool go_with_others(std::span<const OwnMessage> own, size_t messages);

struct P2pGrid {
  uint32_t ctas = 0, rows = 0, threads = 0;
};
// Fills `launch`, whose shape is set, with a part and with the rank's messages to itself.
P2pGrid prepare_p2p(const P2pPart& part, std::span<const OwnMessage> own, P2pLaunch& launch);

}  // namespace plait
