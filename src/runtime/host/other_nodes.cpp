#include "runtime/host/other_nodes.hpp"

#include <type_traits>
#include <utility>

#include "base/deadline.hpp"
#include "runtime/waiting.hpp"

namespace plait {
namespace {

constexpr double kSecondsBetweenWords = 0.25;
constexpr double kGraceSeconds = 1;

}  // namespace

static_assert(std::is_trivially_copyable_v<Call>, "calls travel as bytes between ranks of one version");

OtherNodes::OtherNodes(std::unique_ptr<Transport> transport, int rank, std::vector<std::string> addresses,
                       std::vector<int> node_of)
    : transport_(std::move(transport)),
      rank_(rank),
      addresses_(std::move(addresses)),
      node_of_(std::move(node_of)),
      meetings_(node_of_.size()),
      words_(node_of_.size()),
      lost_since_(node_of_.size(), 0) {
  listen();
}

OtherNodes::~OtherNodes() {
  std::vector<NetRequest> none;
  give_up(none);
  transport_->cancel(listening_);
}

// Each says hello, and, once its own messages need no help of the other end to leave, that it is ready.
bool OtherNodes::meet(int rank) {
  Meeting& it = meetings_[rank];
  const auto is_done = [](const NetRequest& request) { return request.state == NetRequest::State::kDone; };
  if (it.step == Meeting::kUnknown) {
    transport_->connect(rank, addresses_[rank]);
    start(it, rank, Meeting::kGreeting);
  }
  if (it.step == Meeting::kGreeting && is_done(it.sent) && is_done(it.received)) it.step = Meeting::kConnecting;
  if (it.step == Meeting::kConnecting && flush()) start(it, rank, Meeting::kReady);
  if (it.step == Meeting::kReady && is_done(it.sent) && is_done(it.received)) it.step = Meeting::kMet;
  return it.step == Meeting::kMet;
}

void OtherNodes::start(Meeting& meeting, int rank, Meeting::Step step) {
  meeting.step = step;
  const auto tag = [&](int from) { return kMeetingTag | static_cast<uint64_t>(step) << 32 | static_cast<uint64_t>(from); };
  transport_->receive(tag(rank), nullptr, 0, meeting.received);
  transport_->send(rank, tag(rank_), nullptr, 0, meeting.sent);
}

void OtherNodes::send(int to, uint64_t tag, const void* data, size_t bytes, NetRequest& request) {
  transport_->send(to, tag, data, bytes, request);
}

void OtherNodes::receive(uint64_t tag, void* data, size_t bytes, NetRequest& request) {
  transport_->receive(tag, data, bytes, request);
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

void OtherNodes::finish(double timeout_seconds) {
  const Deadline deadline = Deadline::after(timeout_seconds);
  while (!flush() && !deadline.passed()) progress();
}

void OtherNodes::give_up(std::vector<NetRequest>& requests) {
  transport_->disconnect();
  for (Meeting& meeting : meetings_) transport_->cancel(meeting.received);
  for (NetRequest& request : requests) transport_->cancel(request);
}

}  // namespace plait
