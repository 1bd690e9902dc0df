// Long messages go in parts, of which some are under way at once.
//
// A transport that first asks the receiver whether it is ready asks behind the data that it sends already. Where two
// ranks exchange long messages, their questions wait for each other's data, and one direction rests at a time (0.6 of
// what TCP carries both ways). Parts that leave unasked keep both directions busy. A mark, which is empty, follows each
// batch of parts. It is over when its receiver has taken it, so no more than two batches wait in the memory of a rank
// that has not come to its receive.
//
// Messages to a rank with one tag stay in their order: one waits until all parts of those before it have started.
//
// Both ends cut a message alike. Another mark ends it, so that messages of different sizes differ somewhere: a short
// message is shorter than any part, and a part is never empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "runtime/net/transport.hpp"

namespace plait {

class LongMessages {
 public:
  // Messages of more bytes are long.
  static constexpr size_t kMostShortBytes = size_t{128} << 10;
  static constexpr bool are_long(size_t bytes) { return bytes > kMostShortBytes; }

  // The transport outlives this object.
  explicit LongMessages(Transport& transport) : transport_(transport) {}

  // Whether a message to this rank has to be sent by send(), though it be short, since a long one is ahead of it.
  bool are_ahead(int rank, uint64_t tag) const { return is_behind(rank, tag, under_way_.end()); }

  // As those of the transport, for long messages. A message that is longer or shorter than its receive ends that as
  // kTruncated, or with the bytes that came.
  void send(int rank, uint64_t tag, const void* data, size_t bytes, NetRequest& request,
            NetMemory memory = NetMemory::kHost);
  void receive(uint64_t tag, void* data, size_t bytes, NetRequest& request, NetMemory memory = NetMemory::kHost);
  // Gives up a receive, if it is one of a long message: when it returns, the memory is not in use.
  void cancel(NetRequest& request);
  // Starts the parts that may be started, and ends the messages that are over. Returns whether there were any. After
  // progress() of the transport.
  bool advance();

 private:
  struct Message {
    NetRequest* request = nullptr;
    bool is_send = false;
    int rank = -1;  // to which it is sent
    uint64_t tag = 0;
    std::byte* data = nullptr;
    NetMemory memory = NetMemory::kHost;
    std::vector<size_t> parts;  // bytes of each, and of marks
    std::vector<NetRequest> requests;
    size_t started = 0, ended = 0;  // parts and marks
    size_t offset = 0;              // of the next part to start
    NetRequest::State state = NetRequest::State::kPending;
    size_t moved = 0;  // bytes received
  };

  using Messages = std::list<Message>;

  Message& add(NetRequest& request, std::byte* data, size_t bytes, NetMemory memory);
  // Whether parts of a message before `end` to this rank with this tag are still to be started.
  bool is_behind(int rank, uint64_t tag, Messages::const_iterator end) const;
  bool is_behind(const Message& message) const;
  void start_parts(Message& message);
  void end_parts(Message& message);
  void give_up(Message& message);
  bool advance(Message& message);

  Transport& transport_;
  Messages under_way_;  // in the order in which they were given
};

}  // namespace plait
