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

// The information that the two ends of a message exchange.
struct MessageProposal {
  uint64_t bytes = 0;
  BufferPlace place;  // the sender's buffer
};
static_assert(sizeof(MessageProposal) <= sizeof(Proposal::data) && std::is_trivially_copyable_v<MessageProposal>);

constexpr size_t kSender = 0, kReceiver = 1;  // the two ends' numbers in an agreement

MessageProposal read(const Proposal& proposal) {
  MessageProposal message;
  std::memcpy(&message, proposal.data.data(), sizeof(message));
  return message;
}

bool is_one_each_way(std::span<const PeerMessage> messages, int rank) {
  int sends = 0, receives = 0;
  for (const PeerMessage& message : messages) {
    if (message.peer == rank || ++(message.kind == Kind::kSend ? sends : receives) > 1) return false;
  }
  return true;
}

}  // namespace

ZeroCopyMessages::ZeroCopyMessages(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyEngineLock& lock,
                                   const WaitLimits& limits)
    : rank_(state.rank()),
      buffers_(buffers),
      lock_(lock),
      ranks_(ranks),
      conditions_(state, {"a long message", "the other end", "between the two"}, limits) {
  for (int peer = 0; peer < ranks; ++peer) {
    receives_.emplace_back(state.message_agreement_memory(peer, rank_), kReceiver, 2);
    sends_.emplace_back(state.message_agreement_memory(rank_, peer), kSender, 2);
  }
}

bool ZeroCopyMessages::propose(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes,
                               cudaStream_t stream) {
  if (conditions_.sharing() == ProcessSharing::kSome) return false;
  endpoints_ = long_messages(messages, routes);
  if (endpoints_.empty()) return false;
  messages_ = messages;
  stream_ = stream;
  captured_ = is_captured(stream);
  const bool is_plain = is_one_each_way(messages, rank_);
  if (!is_plain) conditions_.note("an exchange has several sends or receives, or messages of the rank to itself");
  for (Endpoint& endpoint : endpoints_) endpoint.is_willing = is_plain;
  use_ = {captured_, {}};
  round_ = {};
  CopyEngineLockGuard guard(lock_);
  begin_round();
  guard.keeps = true;
  return true;
}

void ZeroCopyMessages::begin_round() {
  const size_t first = round_.next;
  round_ = {first, first, std::chrono::steady_clock::now()};
  while (round_.next < endpoints_.size() && endpoints_[round_.next].round == endpoints_[first].round) ++round_.next;
  for (Endpoint& endpoint : round()) propose(endpoint);
}

bool ZeroCopyMessages::advance() {
  CopyEngineLockGuard guard(lock_);
  bool is_last = false;
  if (!round_.has_voted) {
    vote();
    round_.has_voted = true;
  } else {
    commit();
    is_last = round_.next == endpoints_.size();
    if (!is_last) begin_round();
  }
  guard.keeps = true;
  return is_last;
}

std::optional<ZeroCopyExchange> ZeroCopyMessages::agreed() {
  CopyEngineLockGuard guard(lock_);
  PeerBuffers::Use use = std::move(use_);  // released on return if nothing is agreed on
  if (std::none_of(endpoints_.begin(), endpoints_.end(), [](const Endpoint& endpoint) { return endpoint.is_agreed; }))
    return std::nullopt;
  ZeroCopyExchange exchange = agreed_copies();
  exchange.use = std::move(use);
  guard.keeps = exchange.has_lock;
  return exchange;
}

std::vector<ZeroCopyMessages::Endpoint> ZeroCopyMessages::long_messages(std::span<const PeerMessage> messages,
                                                                        std::span<const MessageRoute> routes) {
  std::vector<Endpoint> endpoints;  // by round
  std::map<const Agreement*, int> rounds;
  for (size_t m = 0; m < messages.size(); ++m) {
    const PeerMessage& message = messages[m];
    if (!routes[m].zero_copy || message.peer == rank_) continue;
    Endpoint& endpoint = endpoints.emplace_back();
    endpoint.message = &message;
    endpoint.route = &routes[m];
    endpoint.agreement = &(message.kind == Kind::kSend ? sends_ : receives_)[static_cast<size_t>(message.peer)];
    endpoint.round = rounds[endpoint.agreement]++;
  }
  std::stable_sort(endpoints.begin(), endpoints.end(),
                   [](const Endpoint& a, const Endpoint& b) { return a.round < b.round; });
  return endpoints;
}

// A rank that is not willing does not wait, so that the round ends for both ranks at once, and both skip some calls
// after it.
void ZeroCopyMessages::vote() {
  using Clock = std::chrono::steady_clock;
  for (Endpoint& endpoint : round()) {
    if (endpoint.agreement->stage() != Agreement::Stage::kProposed) continue;
    std::chrono::nanoseconds timeout{0};
    if (endpoint.is_willing)
      timeout = captured_ ? std::max(endpoint.route->timeout, kTimeoutInCapture) : endpoint.route->timeout;
    timeout = std::max(timeout - (Clock::now() - round_.begin), std::chrono::nanoseconds(0));
    const auto can = [&](std::span<const Proposal> proposals) { return can_do(endpoint, proposals); };
    if (!endpoint.agreement->vote(timeout, can) && endpoint.is_willing) conditions_.note_late();
  }
}

// Commits those in which both ends have come.
void ZeroCopyMessages::commit() {
  for (Endpoint& endpoint : round()) {
    if (endpoint.agreement->stage() != Agreement::Stage::kVoted) continue;
    const auto poll = conditions_.poll_for(join("rank ", endpoint.message->peer));
    endpoint.is_agreed = conditions_.is_agreed(endpoint.agreement->commit(poll));
  }
}

void ZeroCopyMessages::propose(Endpoint& endpoint) {
  if (!endpoint.agreement->begin(captured_)) return;
  MessageProposal message;
  message.bytes = endpoint.message->bytes();
  endpoint.is_willing = endpoint.is_willing && find_out_willing(endpoint, message.place);
  Proposal ours;
  ours.willing = endpoint.is_willing;
  std::memcpy(ours.data.data(), &message, sizeof(message));
  endpoint.agreement->propose(ours);
}

bool ZeroCopyMessages::find_out_willing(const Endpoint& endpoint, BufferPlace& place) {
  if (endpoint.message->kind == Kind::kSend) {
    place = buffers_.place_of(endpoint.message->buffer, endpoint.message->bytes());
    return conditions_.can_be_mapped(place);
  }
  return engine(endpoint) != Engine::kCopy || conditions_.try_lock(lock_, stream_);
}

// Copy engines cannot carry what ranks of one process capture (ZeroCopyConditions::try_lock()), so SMs do. But with two
// ranks FIFOs are as fast as SMs.
Engine ZeroCopyMessages::engine(const Endpoint& endpoint) const {
  return captured_ && conditions_.sharing() == ProcessSharing::kAll && ranks_ > 2 ? Engine::kSm
                                                                                  : *endpoint.route->zero_copy;
}

bool ZeroCopyMessages::can_do(Endpoint& endpoint, std::span<const Proposal> proposals) {
  const MessageProposal send = read(proposals[kSender]), receive = read(proposals[kReceiver]);
  if (send.bytes != receive.bytes) return false;  // the kernels will report it
  if (endpoint.message->kind == Kind::kSend) return true;
  try {
    endpoint.source = buffers_.map(endpoint.message->peer, send.place, use_);
    return true;
  } catch (const std::exception& error) {
    conditions_.note(error.what());
    return false;
  }
}

ZeroCopyExchange ZeroCopyMessages::agreed_copies() const {
  ZeroCopyExchange exchange;
  exchange.inputs.assign(static_cast<size_t>(ranks_), nullptr);
  const auto is_received = [](const Endpoint& endpoint) {
    return endpoint.is_agreed && endpoint.message->kind == Kind::kReceive;
  };
  const bool receives = std::any_of(endpoints_.begin(), endpoints_.end(), is_received);
  for (const Endpoint& endpoint : endpoints_) {
    if (!endpoint.is_agreed) continue;
    const PeerMessage& message = *endpoint.message;
    exchange.agreements.push_back(endpoint.agreement->number());
    if (message.kind == Kind::kSend) {
      exchange.copies.queues.push_back(sending_queue(message.peer, receives));
      continue;
    }
    const bool by_kernel = engine(endpoint) == Engine::kSm;
    exchange.copies.by_one_kernel = by_kernel;
    exchange.has_lock = !by_kernel;
    exchange.copies.queues.push_back(receiving_queue(message.peer, message.bytes(), by_kernel));
    exchange.inputs[static_cast<size_t>(message.peer)] = endpoint.source;
    exchange.output = static_cast<std::byte*>(message.buffer);
  }
  for (const PeerMessage& message : messages_) {
    const auto is_zero_copy = [&](const Endpoint& endpoint) {
      return endpoint.message == &message && endpoint.is_agreed;
    };
    if (std::none_of(endpoints_.begin(), endpoints_.end(), is_zero_copy)) exchange.rest.push_back(message);
  }
  exchange.copies.leaves_room = !exchange.rest.empty();
  return exchange;
}

}  // namespace plait
