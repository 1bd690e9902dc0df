#include "runtime/cuda/zero_copy/zero_copy_messages.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <type_traits>

#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

using Kind = PeerMessage::Kind;

// What the ends of a message tell each other.
struct MessageOffer {
  uint64_t bytes = 0;
  BufferPlace place;  // of what is sent
};
static_assert(sizeof(MessageOffer) <= sizeof(Proposal::words) && std::is_trivially_copyable_v<MessageOffer>);

constexpr size_t kSender = 0, kReceiver = 1;  // in meetings about messages from one to the other

MessageOffer offer_in(const Proposal& proposal) {
  MessageOffer offer;
  std::memcpy(&offer, proposal.words.data(), sizeof(offer));
  return offer;
}

bool is_one_each_way(std::span<const PeerMessage> messages, int rank) {
  int sends = 0, receives = 0;
  for (const PeerMessage& message : messages) {
    if (message.peer == rank || ++(message.kind == Kind::kSend ? sends : receives) > 1) return false;
  }
  return true;
}

}  // namespace

ZeroCopyMessages::ZeroCopyMessages(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyEngineLock& turn,
                                   const WaitLimits& limits)
    : rank_(state.rank()),
      buffers_(buffers),
      lock_(turn),
      ranks_(ranks),
      watch_(state, {"a long message", "the other end", "between the two"}, limits) {
  for (int peer = 0; peer < ranks; ++peer) {
    receives_.emplace_back(state.message_offers(peer, rank_), kReceiver, 2);
    sends_.emplace_back(state.message_offers(rank_, peer), kSender, 2);
  }
}

bool ZeroCopyMessages::propose(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes,
                               cudaStream_t stream) {
  if (watch_.sharing() == ProcessSharing::kSome) return false;
  ends_ = long_ones(messages, routes);
  if (ends_.empty()) return false;
  messages_ = messages;
  stream_ = stream;
  captured_ = is_captured(stream);
  const bool is_plain = is_one_each_way(messages, rank_);
  if (!is_plain) watch_.note("an exchange has several of a kind, or some to the rank itself");
  for (End& end : ends_) end.is_willing = is_plain;
  use_ = {captured_, {}};
  round_ = {};
  CopyEngineLockGuard turn(lock_);
  begin_round();
  turn.stays = true;
  return true;
}

void ZeroCopyMessages::begin_round() {
  const size_t first = round_.next;
  round_ = {first, first, std::chrono::steady_clock::now()};
  while (round_.next < ends_.size() && ends_[round_.next].round == ends_[first].round) ++round_.next;
  for (End& end : round()) propose(end);
}

bool ZeroCopyMessages::advance() {
  CopyEngineLockGuard turn(lock_);
  bool is_last = false;
  if (!round_.has_met) {
    meet();
    round_.has_met = true;
  } else {
    hear();
    is_last = round_.next == ends_.size();
    if (!is_last) begin_round();
  }
  turn.stays = true;
  return is_last;
}

std::optional<DirectExchange> ZeroCopyMessages::conclude() {
  CopyEngineLockGuard turn(lock_);
  PeerBuffers::Use use = std::move(use_);  // of what is agreed on, or not
  if (std::none_of(ends_.begin(), ends_.end(), [](const End& end) { return end.is_agreed(); })) return std::nullopt;
  DirectExchange exchange = agreed_copies();
  exchange.use = std::move(use);
  turn.stays = exchange.has_lock;
  return exchange;
}

std::vector<ZeroCopyMessages::End> ZeroCopyMessages::long_ones(std::span<const PeerMessage> messages,
                                                               std::span<const MessageRoute> routes) {
  std::vector<End> ends;  // by round
  std::map<const Meetings*, int> rounds;
  for (size_t m = 0; m < messages.size(); ++m) {
    const PeerMessage& message = messages[m];
    if (!routes[m].direct || message.peer == rank_) continue;
    End& end = ends.emplace_back();
    end.message = &message;
    end.route = &routes[m];
    end.meetings = &(message.kind == Kind::kSend ? sends_ : receives_)[static_cast<size_t>(message.peer)];
    end.round = rounds[end.meetings]++;
  }
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.round < b.round; });
  return ends;
}

// Who is not willing has no timeout, so that the meeting is over for both at once, and both leave out some.
void ZeroCopyMessages::meet() {
  using Clock = std::chrono::steady_clock;
  for (End& end : round()) {
    if (end.stage != End::Stage::kProposed) continue;
    std::chrono::nanoseconds timeout{0};
    if (end.is_willing) timeout = captured_ ? std::max(end.route->timeout, kTimeoutInCapture) : end.route->timeout;
    timeout = std::max(timeout - (Clock::now() - round_.begin), std::chrono::nanoseconds(0));
    const auto can = [&](std::span<const Proposal> proposals) { return can_do(end, proposals); };
    if (end.meetings->meet(timeout, can)) {
      end.stage = End::Stage::kMet;
    } else if (end.is_willing) {
      watch_.have_agreed(Meetings::Outcome::kLate);
    }
  }
}

// What the others say who have met.
void ZeroCopyMessages::hear() {
  for (End& end : round()) {
    if (end.stage != End::Stage::kMet) continue;
    const auto look = watch_.look(join("rank ", end.message->peer));
    if (watch_.have_agreed(end.meetings->conclude(look))) end.stage = End::Stage::kAgreed;
  }
}

void ZeroCopyMessages::propose(End& end) {
  if (!end.meetings->begin_call(captured_)) return;
  MessageOffer offer;
  offer.bytes = end.message->bytes();
  end.is_willing = end.is_willing && can_be_willing(end, offer.place);
  Proposal ours;
  ours.willing = end.is_willing;
  std::memcpy(ours.words.data(), &offer, sizeof(offer));
  if (end.meetings->propose(ours)) end.stage = End::Stage::kProposed;
}

bool ZeroCopyMessages::can_be_willing(const End& end, BufferPlace& place) {
  if (end.message->kind == Kind::kSend) {
    place = buffers_.place_of(end.message->buffer, end.message->bytes());
    return watch_.can_be_mapped(place);
  }
  return engine(end) != Engine::kCopy || watch_.takes(lock_, stream_);
}

// What ranks of one process capture, copy engines cannot carry (AgreementWatch::takes()). Between two GPUs inboxes are
// as fast as SMs then.
Engine ZeroCopyMessages::engine(const End& end) const {
  return captured_ && watch_.sharing() == ProcessSharing::kAll && ranks_ > 2 ? Engine::kSm : *end.route->direct;
}

bool ZeroCopyMessages::can_do(End& end, std::span<const Proposal> proposals) {
  const MessageOffer send = offer_in(proposals[kSender]), receive = offer_in(proposals[kReceiver]);
  if (send.bytes != receive.bytes) return false;  // which kernels report
  if (end.message->kind == Kind::kSend) return true;
  try {
    end.source = buffers_.map(end.message->peer, send.place, use_);
    return true;
  } catch (const std::exception& error) {
    watch_.note(error.what());
    return false;
  }
}

DirectExchange ZeroCopyMessages::agreed_copies() const {
  DirectExchange exchange;
  exchange.inputs.assign(static_cast<size_t>(ranks_), nullptr);
  const auto is_received = [](const End& end) { return end.is_agreed() && end.message->kind == Kind::kReceive; };
  const bool receives = std::any_of(ends_.begin(), ends_.end(), is_received);
  for (const End& end : ends_) {
    if (!end.is_agreed()) continue;
    const PeerMessage& message = *end.message;
    exchange.agreements.push_back(end.meetings->agreement());
    if (message.kind == Kind::kSend) {
      exchange.copies.queues.push_back(sending_queue(message.peer, receives));
      continue;
    }
    const bool by_kernel = engine(end) == Engine::kSm;
    exchange.copies.by_one_kernel = by_kernel;
    exchange.has_lock = !by_kernel;
    exchange.copies.queues.push_back(receiving_queue(message.peer, message.bytes(), by_kernel));
    exchange.inputs[static_cast<size_t>(message.peer)] = end.source;
    exchange.output = static_cast<std::byte*>(message.buffer);
  }
  for (const PeerMessage& message : messages_) {
    const auto goes_straight = [&](const End& end) { return end.message == &message && end.is_agreed(); };
    if (std::none_of(ends_.begin(), ends_.end(), goes_straight)) exchange.rest.push_back(message);
  }
  exchange.copies.leaves_room = !exchange.rest.empty();
  return exchange;
}

}  // namespace plait
