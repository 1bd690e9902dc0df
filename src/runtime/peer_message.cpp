// Describes messages in words and checks them.
#include "runtime/peer_message.hpp"

#include <cstdint>
#include <vector>

#include "base/error.hpp"

namespace plait {
namespace {

void check_own_messages(std::span<const PeerMessage> messages, int rank) {
  for (const auto& [send, receive] : own_messages(messages, rank)) {
    if (send == nullptr || receive == nullptr) {
      fail(ErrorCode::kInvalidArgument, to_text(send != nullptr ? *send : *receive),
           ", which is this rank itself: post the other end in the same exchange (in C: in the same group)");
    }
    if (send->bytes() == receive->bytes()) continue;
    fail(ErrorCode::kInvalidArgument, to_text(*send), ", this rank itself, matches a ", to_text(*receive),
         ", which has another size");
  }
}

}  // namespace

std::string to_text(const PeerMessage& message) {
  const bool sends = message.kind == PeerMessage::Kind::kSend;
  return join(sends ? "send of " : "receive of ", message.count, ' ', name(message.type),
              sends ? " to rank " : " from rank ", message.peer);
}

std::vector<OwnMessage> own_messages(std::span<const PeerMessage> messages, int rank) {
  std::vector<OwnMessage> pairs;
  size_t sends = 0, receives = 0;
  for (const PeerMessage& message : messages) {
    if (message.peer != rank) continue;
    const bool is_send = message.kind == PeerMessage::Kind::kSend;
    const size_t n = is_send ? sends++ : receives++;
    if (n == pairs.size()) pairs.emplace_back();
    (is_send ? pairs[n].send : pairs[n].receive) = &message;
  }
  return pairs;
}

void check_messages(std::span<const PeerMessage> messages, int rank, int ranks) {
  for (const PeerMessage& message : messages) {
    const auto refuse = [&](const auto&... why) { fail(ErrorCode::kInvalidArgument, to_text(message), ": ", why...); };
    if (message.peer < 0 || message.peer >= ranks) refuse("there are ranks 0 to ", ranks - 1, " only");
    if (message.count > SIZE_MAX / 4 / size_of(message.type)) refuse("that is larger than any memory");
    if (message.count > 0 && message.buffer == nullptr) refuse("its buffer is null");
  }
  check_own_messages(messages, rank);
}

}  // namespace plait
