// Cuts messages into pieces, and divides them among launches.
#include "runtime/cuda/p2p/p2p_program.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace plait {
namespace {

constexpr size_t kAlignment = 128;
constexpr uint32_t kPieceUnit = 512;            // what a warp accesses at once
constexpr uint32_t kLeastPieceBytes = 2 << 10;  // less is not worth a channel

constexpr uint32_t kThreadBytes = 16;  // what a thread copies at once

size_t round_down(size_t value, size_t unit) { return value / unit * unit; }

// A message and its place among the launches.
struct Assigned {
  size_t part;
  size_t row;  // ordered by kind (receives first), then by peer
  const PeerMessage* message;
};
size_t row_of(const PeerMessage& message) {
  const size_t sends = message.kind == PeerMessage::Kind::kSend ? 1 : 0;
  return sends * kMostDeviceRanks + static_cast<size_t>(message.peer);
}

void add(P2pPart& part, const PeerMessage& message, const FifoShape& shape) {
  const uint64_t bytes = message.bytes();
  const uint32_t piece = shape.piece_bytes(bytes);
  const uint64_t pieces = std::max<uint64_t>(1, (bytes + piece - 1) / piece);
  part.messages.push_back({reinterpret_cast<uint64_t>(message.buffer), bytes, piece});
  part.piece_bytes = std::max(part.piece_bytes, static_cast<uint32_t>(std::min<uint64_t>(bytes, piece)));
  part.channels = std::max(part.channels, static_cast<uint32_t>(std::min<uint64_t>(pieces, shape.channels)));
}

// Enough threads to copy a piece at once, if a CTA can have so many, and the warp that signals.
uint32_t threads_for(uint32_t piece_bytes) {
  const uint32_t warps = (piece_bytes + kThreadBytes * kWarpThreads - 1) / (kThreadBytes * kWarpThreads);
  return std::clamp((warps + 1) * kWarpThreads, 2 * kWarpThreads, kMostP2pThreads);
}

// Adds a row of CTAs for messages to itself, at most as wide as the rows of messages. Returns the bytes per CTA.
uint32_t add_own(std::span<const OwnMessage> own, P2pLaunch& launch, P2pGrid& grid) {
  constexpr uint64_t kWorthACta = 32 << 10, kMostCtas = 8;
  uint64_t longest = 0;
  for (const auto& [send, receive] : own) {
    if (send->count == 0 || send->buffer == receive->buffer) continue;
    launch.own[launch.own_count++] = {reinterpret_cast<uint64_t>(send->buffer),
                                      reinterpret_cast<uint64_t>(receive->buffer), send->bytes()};
    longest = std::max(longest, send->bytes());
  }
  if (launch.own_count == 0) return 0;
  const uint64_t most = std::min<uint64_t>(kMostCtas, launch.shape.channels);
  launch.own_ctas = static_cast<uint32_t>(std::clamp<uint64_t>(longest / kWorthACta, 1, most));
  ++grid.rows;
  grid.ctas = std::max(grid.ctas, launch.own_ctas);
  return static_cast<uint32_t>(longest / launch.own_ctas);
}

}  // namespace

FifoShape FifoShape::of(int ranks, int ranks_per_device, int sm_count) {
  FifoShape shape;
  if (ranks < 2) return shape;
  const int rows = 2 * (ranks - 1) * ranks_per_device;
  shape.channels = static_cast<uint32_t>(std::clamp(sm_count / rows, 1, kMostMessageChannels));
  shape.slots = kSlots;
  const size_t ring = BlockLayout::kFifoBytes / static_cast<size_t>(ranks - 1) / shape.channels;
  shape.slot_bytes = static_cast<uint32_t>(round_down(ring / shape.slots, kAlignment));
  shape.data_bytes = static_cast<uint32_t>(round_down(shape.slot_bytes - kSlotHeader, kPieceUnit));
  return shape;
}

uint32_t FifoShape::piece_bytes(uint64_t bytes) const {
  const uint64_t share = (bytes + channels - 1) / channels;
  const uint64_t rounded = (share + kPieceUnit - 1) / kPieceUnit * kPieceUnit;
  return static_cast<uint32_t>(std::clamp<uint64_t>(rounded, std::min(kLeastPieceBytes, data_bytes), data_bytes));
}

std::vector<P2pPart> divide(std::span<const PeerMessage> messages, int rank, int ranks, const FifoShape& shape) {
  const size_t each = static_cast<size_t>(kMostMessages / (2 * std::max(ranks - 1, 1)));
  std::array<size_t, 2 * kMostDeviceRanks> so_far{};  // messages by row
  std::vector<Assigned> assigned;
  assigned.reserve(messages.size());
  for (const PeerMessage& message : messages) {
    if (message.peer == rank) continue;
    const size_t row = row_of(message);
    assigned.push_back({so_far[row]++ / each, row, &message});
  }
  std::sort(assigned.begin(), assigned.end(), [](const Assigned& a, const Assigned& b) {
    return std::tie(a.part, a.row, a.message) < std::tie(b.part, b.row, b.message);
  });
  std::vector<P2pPart> parts;
  size_t row = 0;  // of the previous message
  for (const Assigned& it : assigned) {
    const bool begins_part = it.part == parts.size();
    P2pPart& part = begins_part ? parts.emplace_back() : parts.back();
    if (begins_part || it.row != row) {
      part.rows.push_back({static_cast<uint8_t>(it.message->peer), it.message->kind == PeerMessage::Kind::kSend,
                           static_cast<uint16_t>(part.messages.size()), 0});
    }
    row = it.row;
    ++part.rows.back().count;
    add(part, *it.message, shape);
  }
  return parts;
}

// The launch of the other messages finishes a smaller copy before a separate copy would even have started.
bool go_with_others(std::span<const OwnMessage> own, size_t messages) {
  constexpr uint64_t kMostBytes = 1 << 20;
  uint64_t bytes = 0;
  for (const auto& [send, receive] : own) bytes += send->bytes();
  return 2 * own.size() < messages && own.size() <= kMostOwnCopies && bytes <= kMostBytes;
}

P2pGrid prepare_p2p(const P2pPart& part, std::span<const OwnMessage> own, P2pLaunch& launch) {
  std::copy(part.rows.begin(), part.rows.end(), launch.rows);
  std::copy(part.messages.begin(), part.messages.end(), launch.messages);
  P2pGrid grid{part.channels, static_cast<uint32_t>(part.rows.size()), 0};
  grid.threads = threads_for(std::max(part.piece_bytes, add_own(own, launch, grid)));
  return grid;
}

}  // namespace plait
