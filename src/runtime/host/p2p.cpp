// Moves messages through FIFOs.
#include "runtime/host/p2p.hpp"

#include <algorithm>
#include <cstring>

#include "base/figures.hpp"

namespace plait {
namespace {

// Messages of at least these sizes may go past the caches into the FIFO, and go past them out of it
// (docs/notes/cpu_shared_memory.md).
constexpr size_t kStreamingSendBytes = 8 << 10;
constexpr size_t kStreamingReceiveBytes = 16 << 20;

// Only the receiver's type is known: "12 bytes, as 3 float32 have".
std::string sent_words(size_t bytes, DataType type) {
  const size_t element = size_of(type);
  const std::string text = counted(bytes, "byte");
  if (element == 1 || bytes == 0 || bytes % element != 0) return text;
  return join(text, ", as ", bytes / element, ' ', name(type), " have");
}

bool is_send(const PeerMessage& message) { return message.kind == PeerMessage::Kind::kSend; }

}  // namespace

P2p::P2p(const Segment& segment, int rank, const Watch& watch, OtherNodes* others)
    : segment_(segment), rank_(rank), watch_(watch), others_(others) {
  for (int peer = 0; peer < segment.shape().ranks; ++peer) {
    const bool own = peer == rank;
    sends_.emplace_back(own ? Fifo{} : segment.fifo(rank, peer));
    receives_.emplace_back(own ? Fifo{} : segment.fifo(peer, rank));
  }
}

void P2p::begin(std::span<const PeerMessage> messages, const WantedCheck& is_wanted) {
  is_wanted_ = is_wanted;
  transfers_.clear();
  pending_.clear();
  transfers_.reserve(messages.size());  // so that no allocation fails half-way
  pending_.reserve(messages.size());
  const std::vector<OwnMessage> own = own_messages(messages, rank_);
  for (const PeerMessage& message : messages) {
    if (is_send(message)) {
      enqueue(message, sends_[message.peer]);
    } else {
      enqueue(message, receives_[message.peer]);
    }
  }
  first_ = transfers_.front().numbered;
  for (const Transfer& transfer : transfers_) {
    const int peer = transfer.numbered.message.peer;
    sends_[peer].last = receives_[peer].last = kNone;
  }
  for (const auto& [send, receive] : own) {
    if (send->count > 0) std::memmove(receive->buffer, send->buffer, send->bytes());
  }
}

template <class FifoEnd>
void P2p::enqueue(const PeerMessage& message, Endpoint<FifoEnd>& endpoint) {
  const int at = static_cast<int>(transfers_.size());
  transfers_.push_back({{message, ++endpoint.messages}, message.bytes(), 0, may_stream(message), kNone, {}});
  if (message.peer == rank_) return;
  if (endpoint.last == kNone) {
    pending_.push_back(at);
  } else {
    transfers_[endpoint.last].next = at;
  }
  endpoint.last = at;
}

bool P2p::may_stream(const PeerMessage& message) const {
  if (!is_send(message)) return message.bytes() >= kStreamingReceiveBytes;
  if (message.bytes() < kStreamingSendBytes) return false;
  // If both ranks run on one core, no other cache holds the slots, and ordinary stores are faster.
  const auto core = [&](int rank) { return segment_.status(rank).core.load(std::memory_order_relaxed); };
  return core(message.peer) != core(rank_);
}

bool P2p::advance() {
  bool moved = false;
  size_t kept = 0;
  for (int at : pending_) {
    const Step step = advance(transfers_[at]);
    moved |= step != Step::kBlocked;
    if (step == Step::kFinished) at = transfers_[at].next;
    if (at != kNone) pending_[kept++] = at;
  }
  pending_.resize(kept);
  return moved;
}

// Moves one slot at a time, so that incoming and outgoing messages alternate.
P2p::Step P2p::advance(Transfer& transfer) {
  const PeerMessage& message = transfer.numbered.message;
  if (is_elsewhere(message.peer)) return advance_over_network(transfer);
  auto* buffer = static_cast<std::byte*>(message.buffer);
  if (is_send(message)) {
    FifoSender& sender = sends_[message.peer].fifo;
    if (!sender.has_room()) return Step::kBlocked;
    transfer.moved += sender.put(buffer, transfer.bytes, transfer.moved, transfer.streaming);
  } else {
    FifoReceiver& receiver = receives_[message.peer].fifo;
    if (!receiver.has_slot()) return Step::kBlocked;
    check_size(transfer, receiver.message_bytes());
    transfer.moved += receiver.take(buffer, transfer.moved, transfer.streaming);
  }
  return transfer.moved == transfer.bytes ? Step::kFinished : Step::kMoved;
}

// Its number says which message it is, so that it moves at once and as a whole.
P2p::Step P2p::advance_over_network(Transfer& transfer) {
  const auto& [message, number] = transfer.numbered;
  NetRequest& request = transfer.request;
  if (request.state == NetRequest::State::kIdle) {
    if (is_send(message)) {
      others_->send(message.peer, message_tag(rank_, number), message.buffer, transfer.bytes, request);
    } else {
      others_->receive(message.peer, message_tag(message.peer, number), message.buffer, transfer.bytes, request);
    }
  }
  if (request.state == NetRequest::State::kTruncated) fail_size(transfer, "more");
  if (request.state != NetRequest::State::kDone) return Step::kBlocked;
  if (!is_send(message)) check_size(transfer, request.bytes);
  return Step::kFinished;
}

void P2p::give_up() {
  for (Transfer& transfer : transfers_) {
    if (transfer.request.is_pending()) others_->cancel(transfer.request);
  }
}

void P2p::check_size(const Transfer& transfer, size_t sent_bytes) const {
  if (sent_bytes != transfer.bytes) fail_size(transfer, sent_words(sent_bytes, transfer.numbered.message.type));
}

void P2p::fail_size(const Transfer& transfer, const std::string& sent) const {
  const NumberedMessage& numbered = transfer.numbered;
  const int peer = numbered.message.peer;
  watch_.fail_all(ErrorCode::kMismatch,
                  join("message ", numbered.number, " from rank ", peer, " to rank ", rank_, ": rank ", peer, " sent ",
                       sent, ", but rank ", rank_, " is in a receive of ", counted(transfer.bytes, "byte"), ", a ",
                       to_text(numbered.message),
                       "; both must give the same size, and messages arrive in the order in ", "which they were sent"));
}

void P2p::publish(RankStatus& status) const {
  plait::publish(status.exchanges, blocked().numbered);
  status.waiting.store(kWaitingForMessage, std::memory_order_relaxed);
}

bool P2p::can_move(const Transfer& transfer) {
  const PeerMessage& message = transfer.numbered.message;
  if (is_elsewhere(message.peer)) return transfer.request.state == NetRequest::State::kDone;
  return is_send(message) ? sends_[message.peer].fifo.has_room() : receives_[message.peer].fifo.has_slot();
}

void P2p::examine(bool) {
  for (const int at : pending_) {
    const Transfer& transfer = transfers_[at];
    const int peer = transfer.numbered.message.peer;
    const char* departure = watch_.departure(peer);
    // Data that the peer put into the FIFO before it left can still be taken.
    if (departure != nullptr && !can_move(transfer)) watch_.fail_without(peer, departure, describe(transfer));
    if (!is_elsewhere(peer) || !others_->is_lost(peer)) continue;
    watch_.fail_all(ErrorCode::kPeerFailed, join(watch_.named(peer), " is out of reach (", others_->loss(peer),
                                                 ") while rank ", rank_, " was in ", describe(transfer)));
  }
}

const P2p::Transfer& P2p::blocked() const {
  for (const int at : pending_) {
    if (!is_send(transfers_[at].numbered.message)) return transfers_[at];
  }
  return transfers_[pending_.front()];
}

std::string P2p::what() const { return describe(blocked()); }

std::string P2p::describe(const Transfer& transfer) const {
  const std::string text = join("a ", to_text(transfer.numbered, rank_));
  return transfers_.size() == 1 ? text : join(text, ", one of an exchange of ", counted(transfers_.size(), "message"));
}

std::vector<int> P2p::culprits() const {
  std::vector<int> peers;
  for (const int at : pending_) {
    const int peer = transfers_[at].numbered.message.peer;
    if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  }
  return peers;
}

}  // namespace plait
