#include "runtime/net/long_messages.hpp"

#include <algorithm>

namespace plait {
namespace {

constexpr size_t kPartBytes = size_t{256} << 10;
// Two batches are more than a connection holds while a mark is under way.
constexpr size_t kPartsOfBatch = 8;
constexpr size_t kBatch = kPartsOfBatch + 1;  // with its mark
constexpr size_t kMark = 0;                   // bytes

// Parts are longer than a short message.
std::vector<size_t> parts_of(size_t bytes) {
  std::vector<size_t> parts;
  const auto add = [&](size_t part) {
    parts.push_back(part);
    if (parts.size() % kBatch == kPartsOfBatch) parts.push_back(kMark);
  };
  for (; bytes > kPartBytes + LongMessages::kMostShortBytes; bytes -= kPartBytes) add(kPartBytes);
  add(bytes);
  parts.push_back(kMark);
  return parts;
}

}  // namespace

void LongMessages::send(int rank, uint64_t tag, const void* data, size_t bytes, NetRequest& request, NetMemory memory) {
  Message& message = add(request, static_cast<std::byte*>(const_cast<void*>(data)), bytes, memory);
  message.is_send = true;
  message.rank = rank;
  message.tag = tag;
  start_parts(message);
}

void LongMessages::receive(uint64_t tag, void* data, size_t bytes, NetRequest& request, NetMemory memory) {
  Message& message = add(request, static_cast<std::byte*>(data), bytes, memory);
  message.tag = tag;
  start_parts(message);
}

LongMessages::Message& LongMessages::add(NetRequest& request, std::byte* data, size_t bytes, NetMemory memory) {
  request = {};
  request.state = NetRequest::State::kPending;
  Message& message = under_way_.emplace_back();
  message.request = &request;
  message.data = data;
  message.memory = memory;
  message.parts = are_long(bytes) ? parts_of(bytes) : std::vector<size_t>{bytes};
  message.requests.resize(message.parts.size());
  return message;
}

bool LongMessages::is_behind(int rank, uint64_t tag, Messages::const_iterator end) const {
  return std::any_of(under_way_.begin(), end, [&](const Message& it) {
    return it.is_send && it.rank == rank && it.tag == tag && it.started < it.parts.size();
  });
}

bool LongMessages::is_behind(const Message& message) const {
  const auto is_this = [&](const Message& it) { return &it == &message; };
  return is_behind(message.rank, message.tag, std::ranges::find_if(under_way_, is_this));
}

// Receives all start at once: their memory is there.
void LongMessages::start_parts(Message& message) {
  if (message.is_send && message.started < message.parts.size() && is_behind(message)) return;
  const size_t most = message.is_send ? (message.ended / kBatch + 2) * kBatch : message.parts.size();
  while (message.started < std::min(most, message.parts.size())) {
    const size_t bytes = message.parts[message.started];
    NetRequest& request = message.requests[message.started++];
    std::byte* const part = message.data + message.offset;
    message.offset += bytes;
    if (message.is_send) {
      const auto ends = bytes == kMark ? Transport::SendEnds::kTaken : Transport::SendEnds::kLeft;
      transport_.send(message.rank, message.tag, part, bytes, request, ends, message.memory);
    } else {
      transport_.receive(message.tag, part, bytes, request, message.memory);
    }
  }
}

// Parts end in their order, unless one is lost.
void LongMessages::end_parts(Message& message) {
  while (message.ended < message.started && !message.requests[message.ended].is_pending()) {
    const NetRequest& part = message.requests[message.ended];
    if (part.state != NetRequest::State::kDone) {
      message.state = part.state;
      return;
    }
    message.moved += part.bytes;
    if (!message.is_send && part.bytes < message.parts[message.ended]) {  // the sender's message ends here
      message.state = NetRequest::State::kDone;
      return;
    }
    ++message.ended;
  }
  if (message.ended == message.parts.size()) message.state = NetRequest::State::kDone;
}

void LongMessages::give_up(Message& message) {
  for (NetRequest& part : message.requests) {
    if (part.is_pending()) transport_.cancel(part);
  }
}

// Returns whether the message is over, and tells its owner.
bool LongMessages::advance(Message& message) {
  end_parts(message);
  if (message.state == NetRequest::State::kPending) {
    start_parts(message);
    return false;
  }
  const auto is_pending = [](const NetRequest& part) { return part.is_pending(); };
  if (message.is_send && std::ranges::any_of(message.requests, is_pending)) return false;
  give_up(message);
  message.request->bytes = message.moved;
  message.request->state = message.state;
  return true;
}

bool LongMessages::advance() {
  return std::erase_if(under_way_, [this](Message& message) { return advance(message); }) > 0;
}

void LongMessages::cancel(NetRequest& request) {
  std::erase_if(under_way_, [&](Message& message) {
    if (message.request != &request) return false;
    give_up(message);
    request.state = NetRequest::State::kCancelled;
    return true;
  });
}

}  // namespace plait
