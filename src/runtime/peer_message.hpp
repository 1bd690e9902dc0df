// One end of a message from one rank to another.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace plait {

// Messages from one rank to another arrive in the order in which they were sent: the n-th send of a to b matches the
// n-th receive of b from a. Both have the same number of bytes.
struct PeerMessage {
  enum class Kind { kSend, kReceive };
  Kind kind = Kind::kSend;
  int peer = 0;  // the other rank; this rank itself if the same exchange has both ends
  DataType type = DataType::kUint8;
  size_t count = 0;        // elements
  void* buffer = nullptr;  // a send only reads it; null if count is 0

  size_t bytes() const { return count * size_of(type); }
};

// "send of 1000 float32 to rank 3", for messages.
std::string to_text(const PeerMessage& message);

// A message that a rank sends to itself: its n-th send to itself, and its n-th receive from itself. One of them is null
// if the other has no counterpart.
struct OwnMessage {
  const PeerMessage* send = nullptr;
  const PeerMessage* receive = nullptr;
};
std::vector<OwnMessage> own_messages(std::span<const PeerMessage> messages, int rank);

// Throws kInvalidArgument, naming the message, if one of an exchange cannot be done. Its peer is none of `ranks`, its
// buffer is null, it is larger than any memory, or it is with `rank` itself and its other end is missing or has another
// size.
void check_messages(std::span<const PeerMessage> messages, int rank, int ranks);

}  // namespace plait
