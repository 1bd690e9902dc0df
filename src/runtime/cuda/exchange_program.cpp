// How messages are cut into pieces, and divided among launches.
#include "runtime/cuda/exchange_program.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace plait {
namespace {

constexpr size_t kAlignment = 128;
constexpr uint32_t kPieceUnit = 512;            // what a warp accesses at once
constexpr uint32_t kLeastPieceBytes = 2 << 10;  // less is not worth a strand

size_t round_down(size_t value, size_t unit) { return value / unit * unit; }

// A message, and where it goes.
struct Assigned {
  size_t part;
  size_t queue;  // by kind, sends last, and peer
  const PeerMessage* message;
};
size_t queue_of(const PeerMessage& message) {
  const size_t sends = message.kind == PeerMessage::Kind::kSend ? 1 : 0;
  return sends * kMostDeviceRanks + static_cast<size_t>(message.peer);
}

void add(ExchangePart& part, const PeerMessage& message, const ChannelShape& shape) {
  const uint64_t bytes = message.bytes();
  const uint32_t piece = shape.piece_bytes(bytes);
  const uint64_t pieces = std::max<uint64_t>(1, (bytes + piece - 1) / piece);
  part.messages.push_back({reinterpret_cast<uint64_t>(message.buffer), bytes, piece});
  part.piece_bytes = std::max(part.piece_bytes, static_cast<uint32_t>(std::min<uint64_t>(bytes, piece)));
  part.strands = std::max(part.strands, static_cast<uint32_t>(std::min<uint64_t>(pieces, shape.strands)));
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
  std::array<size_t, 2 * kMostDeviceRanks> so_far{};  // of each queue
  std::vector<Assigned> assigned;
  assigned.reserve(messages.size());
  for (const PeerMessage& message : messages) {
    if (message.peer == rank) continue;
    const size_t queue = queue_of(message);
    assigned.push_back({so_far[queue]++ / each, queue, &message});
  }
  std::sort(assigned.begin(), assigned.end(), [](const Assigned& a, const Assigned& b) {
    return std::tie(a.part, a.queue, a.message) < std::tie(b.part, b.queue, b.message);
  });
  std::vector<ExchangePart> parts;
  size_t queue = 0;  // of the message before
  for (const Assigned& it : assigned) {
    const bool begins_part = it.part == parts.size();
    ExchangePart& part = begins_part ? parts.emplace_back() : parts.back();
    if (begins_part || it.queue != queue) {
      part.queues.push_back({static_cast<uint8_t>(it.message->peer), it.message->kind == PeerMessage::Kind::kSend,
                             static_cast<uint16_t>(part.messages.size()), 0});
    }
    queue = it.queue;
    ++part.queues.back().count;
    add(part, *it.message, shape);
  }
  return parts;
}

}  // namespace plait
