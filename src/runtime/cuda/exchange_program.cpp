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

constexpr uint32_t kThreadBytes = 16;  // that a thread copies at once

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

// Enough to copy a piece at once, as far as there are so many, and the warp that signals.
uint32_t threads_for(uint32_t piece_bytes) {
  const uint32_t warps = (piece_bytes + kThreadBytes * kWarpThreads - 1) / (kThreadBytes * kWarpThreads);
  return std::clamp((warps + 1) * kWarpThreads, 2 * kWarpThreads, kMostExchangeThreads);
}

// A row of CTAs for them, at most as many as the rows of messages may have. Gives the bytes of each.
uint32_t add_own(std::span<const OwnMessage> own, ExchangeLaunch& launch, ExchangeGrid& grid) {
  constexpr uint64_t kWorthACta = 32 << 10, kMostCtas = 8;
  uint64_t longest = 0;
  for (const auto& [send, receive] : own) {
    if (send->count == 0 || send->buffer == receive->buffer) continue;
    launch.own[launch.own_count++] = {reinterpret_cast<uint64_t>(send->buffer),
                                      reinterpret_cast<uint64_t>(receive->buffer), send->bytes()};
    longest = std::max(longest, send->bytes());
  }
  if (launch.own_count == 0) return 0;
  const uint64_t most = std::min<uint64_t>(kMostCtas, launch.shape.strands);
  launch.own_ctas = static_cast<uint32_t>(std::clamp<uint64_t>(longest / kWorthACta, 1, most));
  ++grid.rows;
  grid.ctas = std::max(grid.ctas, launch.own_ctas);
  return static_cast<uint32_t>(longest / launch.own_ctas);
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

// Less than this is copied by the launch of the other messages before a copy of its own would have begun.
bool go_with_others(std::span<const OwnMessage> own, size_t messages) {
  constexpr uint64_t kMostBytes = 1 << 20;
  uint64_t bytes = 0;
  for (const auto& [send, receive] : own) bytes += send->bytes();
  return 2 * own.size() < messages && own.size() <= kMostOwnCopies && bytes <= kMostBytes;
}

ExchangeGrid prepare_exchange(const ExchangePart& part, std::span<const OwnMessage> own, ExchangeLaunch& launch) {
  std::copy(part.queues.begin(), part.queues.end(), launch.queues);
  std::copy(part.messages.begin(), part.messages.end(), launch.messages);
  ExchangeGrid grid{part.strands, static_cast<uint32_t>(part.queues.size()), 0};
  grid.threads = threads_for(std::max(part.piece_bytes, add_own(own, launch, grid)));
  return grid;
}

}  // namespace plait
