// Messages in words, and whether they can be done.
#include "runtime/peer_message.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.hpp"

namespace plait {
namespace {

// What a rank sends itself goes from its n-th send to its n-th receive.
void check_own_messages(std::span<const PeerMessage> messages, int rank) {
  std::vector<const PeerMessage*> sends, receives;
  for (const PeerMessage& message : messages) {
    if (message.peer != rank) continue;
    (message.kind == PeerMessage::Kind::kSend ? sends : receives).push_back(&message);
  }
  for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    if (i >= sends.size() || i >= receives.size()) {
      const PeerMessage& alone = i < sends.size() ? *sends[i] : *receives[i];
      fail(ErrorCode::kInvalidArgument, to_text(alone), ", which is this rank itself: give its other end in the same ",
           "exchange (in C: in the same group), since nobody else could");
    }
    if (sends[i]->bytes() == receives[i]->bytes()) continue;
    fail(ErrorCode::kInvalidArgument, to_text(*sends[i]), ", this rank itself, meets a ", to_text(*receives[i]),
         ", which is another size");
  }
}

}  // namespace

std::string to_text(const PeerMessage& message) {
  const bool sends = message.kind == PeerMessage::Kind::kSend;
  return join(sends ? "send of " : "receive of ", message.count, ' ', name(message.type),
              sends ? " to rank " : " from rank ", message.peer);
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
