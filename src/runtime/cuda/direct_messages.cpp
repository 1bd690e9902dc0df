#include "runtime/cuda/direct_messages.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>

#include "base/overlap.hpp"

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

}  // namespace

DirectMessages::DirectMessages(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyTurn& turn,
                               const AgreementWatch::Options& options)
    : rank_(state.rank()),
      buffers_(buffers),
      turn_(turn),
      is_possible_(!state.shares_process()),
      ranks_(ranks),
      watch_(state, "a long message", options) {
  for (int peer = 0; peer < ranks; ++peer) {
    receives_.emplace_back(state.message_offers(peer, rank_), kReceiver, 2);
    sends_.emplace_back(state.message_offers(rank_, peer), kSender, 2);
  }
}

std::optional<DirectExchange> DirectMessages::agree(std::span<const PeerMessage> messages,
                                                    std::span<const MessageRoute> routes, bool captured) {
  if (!is_possible_) return std::nullopt;
  std::vector<End> ends = long_ones(messages, routes);
  const bool may = ends.empty() || may_go_straight(messages);
  TurnBack turn(turn_);
  // Those of one kind with one peer meet one after the other; all others at once, lest ranks wait in a circle.
  for (size_t first = 0, next = 0; first < ends.size(); first = next) {
    std::set<const Meetings*> at_once;
    while (next < ends.size() && at_once.insert(ends[next].meetings).second) ++next;
    meet({&ends[first], &ends[next]}, may, captured);
  }
  if (std::none_of(ends.begin(), ends.end(), [](const End& end) { return end.is_agreed; })) return std::nullopt;
  DirectExchange exchange = perform(ends, messages);
  turn.agreed = exchange.has_turn;
  return exchange;
}

void DirectMessages::meet(std::span<End> ends, bool may, bool captured) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (End& end : ends) end.is_proposed = propose(end, may, captured);
  for (End& end : ends) {
    if (!end.is_proposed) continue;
    std::chrono::nanoseconds patience = end.route->patience;
    if (captured) patience = std::max(patience, kPatienceInCapture);
    patience = std::max(patience - (Clock::now() - begin), std::chrono::nanoseconds(0));
    const auto can = [&](std::span<const Proposal> proposals) { return this->can(end, proposals); };
    end.is_proposed = end.meetings->meet(patience, can);
    if (!end.is_proposed) watch_.have_agreed(Meetings::Outcome::kLate);
  }
  for (End& end : ends) {
    end.is_agreed = end.is_proposed && watch_.have_agreed(end.meetings->conclude(watch_.look()));
  }
}

std::vector<DirectMessages::End> DirectMessages::long_ones(std::span<const PeerMessage> messages,
                                                           std::span<const MessageRoute> routes) {
  std::vector<End> ends;
  for (size_t m = 0; m < messages.size(); ++m) {
    const PeerMessage& message = messages[m];
    if (!routes[m].direct || message.peer == rank_) continue;
    std::vector<Meetings>& meetings = message.kind == Kind::kSend ? sends_ : receives_;
    ends.push_back({&message, &routes[m], &meetings[static_cast<size_t>(message.peer)]});
  }
  return ends;
}

// Whatever its size, an exchange has one message each way at most, and what is sent is not received over.
bool DirectMessages::may_go_straight(std::span<const PeerMessage> messages) {
  const PeerMessage* send = nullptr;
  const PeerMessage* receive = nullptr;
  for (const PeerMessage& message : messages) {
    const PeerMessage*& of_its_kind = message.kind == Kind::kSend ? send : receive;
    if (of_its_kind != nullptr || message.peer == rank_) {
      watch_.note("an exchange has several of a kind");
      return false;
    }
    of_its_kind = &message;
  }
  if (send == nullptr || receive == nullptr ||
      !overlap(send->buffer, send->bytes(), receive->buffer, receive->bytes())) {
    return true;
  }
  watch_.note("it is sent from where another one is received");
  return false;
}

bool DirectMessages::propose(const End& end, bool may, bool captured) {
  if (!end.meetings->begin_call(captured)) return false;
  MessageOffer offer;
  offer.bytes = end.message->bytes();
  Proposal ours;
  ours.willing = may && is_willing(end, offer.place);
  std::memcpy(ours.words.data(), &offer, sizeof(offer));
  return end.meetings->propose(ours);
}

bool DirectMessages::is_willing(const End& end, BufferPlace& place) {
  if (end.message->kind == Kind::kSend) {
    place = buffers_.place_of(end.message->buffer, end.message->bytes());
    if (place.can_be_mapped) return true;
    watch_.note("what is sent is not memory of cudaMalloc on this GPU, or too many allocations are exported");
    return false;
  }
  if (*end.route->direct != Engine::kCopy || turn_.take()) return true;
  watch_.note("another communicator of this process has copies under way on this GPU, or captured some");
  return false;
}

bool DirectMessages::can(End& end, std::span<const Proposal> proposals) {
  const MessageOffer send = offer_in(proposals[kSender]), receive = offer_in(proposals[kReceiver]);
  if (send.bytes != receive.bytes) return false;  // which kernels report
  if (end.message->kind == Kind::kSend) return true;
  try {
    end.source = buffers_.map(end.message->peer, send.place);
    return true;
  } catch (const std::exception& error) {
    watch_.note(error.what());
    return false;
  }
}

DirectExchange DirectMessages::perform(std::span<const End> ends, std::span<const PeerMessage> messages) const {
  DirectExchange exchange;
  exchange.inputs.assign(static_cast<size_t>(ranks_), nullptr);
  const auto is_received = [](const End& end) { return end.is_agreed && end.message->kind == Kind::kReceive; };
  const bool receives = std::any_of(ends.begin(), ends.end(), is_received);
  for (const End& end : ends) {
    if (!end.is_agreed) continue;
    const PeerMessage& message = *end.message;
    exchange.agreements.push_back(end.meetings->agreement());
    if (message.kind == Kind::kSend) {
      exchange.copies.lanes.push_back(sending_lane(message.peer, receives));
      continue;
    }
    const bool by_kernel = *end.route->direct == Engine::kSm;
    exchange.copies.by_one_kernel = by_kernel;
    exchange.has_turn = !by_kernel;
    exchange.copies.lanes.push_back(receiving_lane(message.peer, message.bytes(), by_kernel));
    exchange.inputs[static_cast<size_t>(message.peer)] = end.source;
    exchange.output = static_cast<std::byte*>(message.buffer);
  }
  for (const PeerMessage& message : messages) {
    const auto goes_straight = [&](const End& end) { return end.message == &message && end.is_agreed; };
    if (std::none_of(ends.begin(), ends.end(), goes_straight)) exchange.rest.push_back(message);
  }
  return exchange;
}

}  // namespace plait
