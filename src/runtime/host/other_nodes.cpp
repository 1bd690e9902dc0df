#include "runtime/host/other_nodes.hpp"

#include <type_traits>
#include <utility>

#include "base/deadline.hpp"
#include "runtime/waiting.hpp"

namespace plait {
namespace {

constexpr double kSecondsBetweenWords = 0.25;
constexpr double kGraceSeconds = 1;
constexpr long kFinishNanoseconds = 1'000'000;

}  // namespace

static_assert(std::is_trivially_copyable_v<Call>, "calls travel as bytes between ranks of one version");
static_assert(sizeof(OtherNodes::Word) <= Transport::kMostHintBytes);

OtherNodes::OtherNodes(std::unique_ptr<Transport> transport, int rank, std::vector<std::string> addresses,
                       std::vector<int> node_of)
    : transport_(std::move(transport)),
      long_messages_(*transport_),
      background_(*transport_),
      rank_(rank),
      addresses_(std::move(addresses)),
      node_of_(std::move(node_of)),
      words_(node_of_.size()),
      lost_since_(node_of_.size(), 0) {
  const auto turn = take_turn();
  listen();
}

OtherNodes::~OtherNodes() {
  const auto turn = take_turn();
  cut();
  cancel(listening_);
}

void OtherNodes::reach(int rank) {
  if (!transport_->is_connected(rank)) transport_->connect(rank, addresses_[rank]);
}

void OtherNodes::send(int to, uint64_t tag, const void* data, size_t bytes, NetRequest& request) {
  reach(to);
  if (LongMessages::are_long(bytes) || long_messages_.are_ahead(to, tag)) {
    return long_messages_.send(to, tag, data, bytes, request);
  }
  transport_->send(to, tag, data, bytes, request);
}

// A rank that only receives is connected as well, or it would not notice that the sender is lost.
void OtherNodes::receive(int from, uint64_t tag, void* data, size_t bytes, NetRequest& request) {
  reach(from);
  if (LongMessages::are_long(bytes)) return long_messages_.receive(tag, data, bytes, request);
  transport_->receive(tag, data, bytes, request);
}

void OtherNodes::cancel(NetRequest& request) {
  long_messages_.cancel(request);
  transport_->cancel(request);
}

bool OtherNodes::progress() {
  const bool moved = transport_->progress();
  return long_messages_.advance() || moved;  // whoever waits looks at once whether it was for a message that is over
}

void OtherNodes::listen() { transport_->receive(kWordTag, &incoming_, sizeof incoming_, listening_); }

bool OtherNodes::is_lost(int rank) {
  if (loss(rank).empty()) return false;
  if (lost_since_[rank] == 0) lost_since_[rank] = seconds_now();
  return seconds_now() - lost_since_[rank] > kGraceSeconds;
}

void OtherNodes::tell(uint64_t number, const Call& call) {
  if (seconds_now() - told_ < kSecondsBetweenWords) return;
  told_ = seconds_now();
  while (!outgoing_.empty() && !outgoing_.front().request.is_pending()) outgoing_.pop_front();
  if (outgoing_.size() > node_of_.size()) return;  // they do not listen
  for (int rank = 0; rank < static_cast<int>(node_of_.size()); ++rank) {
    if (!has(rank) || !transport_->is_connected(rank)) continue;
    Outgoing& it = outgoing_.emplace_back(Outgoing{{rank_, number, call}, {}});
    transport_->send(rank, kWordTag, &it.word, sizeof it.word, it.request);
  }
}

const std::vector<std::optional<OtherNodes::Word>>& OtherNodes::words() {
  while (listening_.state == NetRequest::State::kDone) {
    if (incoming_.rank >= 0 && incoming_.rank < static_cast<int>(words_.size())) words_[incoming_.rank] = incoming_;
    listen();
  }
  return words_;
}

bool OtherNodes::greet_all(double timeout_seconds) {
  const auto turn = take_turn();
  for (int rank = 0; rank < static_cast<int>(node_of_.size()); ++rank) {
    if (!has(rank)) continue;
    reach(rank);
    Outgoing& it = outgoing_.emplace_back();
    transport_->send(rank, kGreetingTag, &it.word, 0, it.request);
  }
  if (!flush_within(timeout_seconds)) return false;
  for (int rank = 0; rank < static_cast<int>(node_of_.size()); ++rank) {
    if (has(rank) && !loss(rank).empty()) return false;
  }
  return true;
}

bool OtherNodes::flush_within(double seconds) {
  const Deadline deadline = Deadline::after(seconds);
  while (!transport_->flush()) {
    if (deadline.passed()) return false;
    sleep(kFinishNanoseconds);
  }
  return true;
}

void OtherNodes::finish(double timeout_seconds) {
  const auto turn = take_turn();
  flush_within(timeout_seconds);
}

}  // namespace plait
