// How messages are cut into pieces, and divided among launches.
#include "runtime/cuda/exchange_program.hpp"

#include <algorithm>
#include <array>

namespace plait {
namespace {

constexpr size_t kAlignment = 128;
constexpr uint32_t kPieceUnit = 512;            // what a warp accesses at once
constexpr uint32_t kLeastPieceBytes = 2 << 10;  // less is not worth a strand

size_t round_down(size_t value, size_t unit) { return value / unit * unit; }

// Messages by their kind, sends last, and peer.
using Queues = std::array<std::array<std::vector<const PeerMessage*>, kMostDeviceRanks>, 2>;

void add(ExchangePart& part, const PeerMessage& message, const ChannelShape& shape) {
  const uint64_t bytes = message.bytes();
  const uint32_t piece = shape.piece_bytes(bytes);
  const uint64_t pieces = std::max<uint64_t>(1, (bytes + piece - 1) / piece);
  part.messages.push_back({reinterpret_cast<uint64_t>(message.buffer), bytes, piece});
  part.piece_bytes = std::max(part.piece_bytes, static_cast<uint32_t>(std::min<uint64_t>(bytes, piece)));
  part.strands = std::max(part.strands, static_cast<uint32_t>(std::min<uint64_t>(pieces, shape.strands)));
}

// Up to `each` messages of every queue, from the one with number `first` on.
ExchangePart part_of(const Queues& queues, size_t first, size_t each, const ChannelShape& shape) {
  ExchangePart part;
  for (size_t sends = 0; sends < 2; ++sends) {
    for (size_t peer = 0; peer < kMostDeviceRanks; ++peer) {
      const auto& queue = queues[sends][peer];
      if (queue.size() <= first) continue;
      const size_t end = std::min(first + each, queue.size());
      part.queues.push_back({static_cast<uint8_t>(peer), sends == 1, static_cast<uint16_t>(part.messages.size()),
                             static_cast<uint16_t>(end - first)});
      for (size_t i = first; i < end; ++i) add(part, *queue[i], shape);
    }
  }
  return part;
}

}  // namespace

ChannelShape ChannelShape::of(int ranks, int ranks_per_device, int processors) {
  ChannelShape shape;
  if (ranks < 2) return shape;
  const int queues = 2 * (ranks - 1) * ranks_per_device;
  shape.strands = static_cast<uint32_t>(std::clamp(processors / queues, 1, kMostMessageStrands));
  shape.slots = kSlots;
  const size_t ring = BlockLayout::kInboxBytes / static_cast<size_t>(ranks - 1) / shape.strands;
  shape.slot_bytes = static_cast<uint32_t>(round_down(ring / shape.slots, kAlignment));
  shape.data_bytes = static_cast<uint32_t>(round_down(shape.slot_bytes - kSlotHeader, kPieceUnit));
  return shape;
}

uint32_t ChannelShape::piece_bytes(uint64_t bytes) const {
  const uint64_t share = (bytes + strands - 1) / strands;
  const uint64_t rounded = (share + kPieceUnit - 1) / kPieceUnit * kPieceUnit;
  return static_cast<uint32_t>(std::clamp<uint64_t>(rounded, std::min(kLeastPieceBytes, data_bytes), data_bytes));
}

std::vector<ExchangePart> divide(std::span<const PeerMessage> messages, int rank, int ranks,
                                 const ChannelShape& shape) {
  const size_t each = static_cast<size_t>(kMostMessages / (2 * std::max(ranks - 1, 1)));
  Queues queues;
  size_t longest = 0;
  for (const PeerMessage& message : messages) {
    if (message.peer == rank) continue;
    auto& queue = queues[message.kind == PeerMessage::Kind::kSend ? 1 : 0][static_cast<size_t>(message.peer)];
    queue.push_back(&message);
    longest = std::max(longest, queue.size());
  }
  std::vector<ExchangePart> parts;
  for (size_t first = 0; first < longest; first += each) parts.push_back(part_of(queues, first, each, shape));
  return parts;
}

}  // namespace plait
