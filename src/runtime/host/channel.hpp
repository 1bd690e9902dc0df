// A channel carries the messages of one rank to one other, in their order, through a ring of slots in memory that both
// share. A message takes as many slots as it needs, one where it is empty.
//
// Each slot has a header, on a cache line of its own, with a number that says which content of this slot it is: what
// the receiver waits for is the line that it reads next anyway. A message that fits there has its data there, too: a
// few bytes take the transfer of one line. The receiver counts the slots that it has emptied; the sender looks at that
// count only when all slots that it knows to be empty are filled.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/host/fold_copy.hpp"

namespace plait {

struct alignas(64) SlotHeader {
  static constexpr size_t kMostInline = 64 - 2 * sizeof(uint64_t);

  std::atomic<uint64_t> number{0};  // of the slot's content, counted over all slots of the channel, from 1
  uint64_t message_bytes = 0;       // of the whole message
  std::byte data[kMostInline] = {};
};
static_assert(sizeof(SlotHeader) == 64);

inline constexpr int kChannelSlots = 4;

// What lies in shared memory; the slots' data follows.
struct ChannelMemory {
  SlotHeader headers[kChannelSlots];
  alignas(64) std::atomic<uint64_t> emptied{0};  // slots, since the beginning
};

// One channel's memory. Plain addresses.
struct Channel {
  ChannelMemory* memory = nullptr;
  std::byte* data = nullptr;
  size_t slot_bytes = 0;

  SlotHeader& header(uint64_t slot) const { return memory->headers[slot % kChannelSlots]; }
  // Where the data of a part of a message is.
  std::byte* part(uint64_t slot, size_t message_bytes) const {
    return message_bytes <= SlotHeader::kMostInline ? header(slot).data : data + slot % kChannelSlots * slot_bytes;
  }

  // The data of one slot, where so many ranks send to one.
  static size_t slot_bytes_for(int senders) {
    const size_t fair = kMostBytes / kChannelSlots / static_cast<size_t>(std::max(senders, 1));
    return std::clamp(fair / 64 * 64, kLeastSlotBytes, kMostSlotBytes);
  }
  static size_t bytes_for(size_t slot_bytes) { return sizeof(ChannelMemory) + kChannelSlots * slot_bytes; }

 private:
  static constexpr size_t kMostBytes = 1 << 20;  // of all channels to one rank
  static constexpr size_t kLeastSlotBytes = 4 << 10;
  static constexpr size_t kMostSlotBytes = 64 << 10;
};

// The sender's end.
class ChannelSource {
 public:
  explicit ChannelSource(const Channel& channel) : channel_(channel) {}

  bool has_room() {
    if (filled_ - emptied_ < kChannelSlots) return true;
    emptied_ = channel_.memory->emptied.load(std::memory_order_acquire);
    return filled_ - emptied_ < kChannelSlots;
  }

  // Where there is room: fills a slot with what comes next of a message of which `sent` bytes are in the channel, past
  // the caches if `streaming`. Gives the number of bytes.
  size_t put(const std::byte* message, size_t message_bytes, size_t sent, bool streaming) {
    const size_t bytes = std::min(message_bytes - sent, channel_.slot_bytes);
    SlotHeader& header = channel_.header(filled_);
    header.message_bytes = message_bytes;
    copy_block(channel_.part(filled_, message_bytes), message + sent, bytes, streaming);
    if (streaming) finish_streaming();
    header.number.store(++filled_, std::memory_order_release);
    return bytes;
  }

 private:
  Channel channel_;
  uint64_t filled_ = 0;
  uint64_t emptied_ = 0;  // as far as it knows
};

// The receiver's end.
class ChannelSink {
 public:
  explicit ChannelSink(const Channel& channel) : channel_(channel) {}

  bool has_slot() const { return channel_.header(emptied_).number.load(std::memory_order_acquire) == emptied_ + 1; }

  // Where there is a slot: the bytes of the whole message that it belongs to.
  size_t message_bytes() const { return channel_.header(emptied_).message_bytes; }

  // Where there is a slot: takes what comes next of a message of which `received` bytes are there, past the caches if
  // `streaming`. Gives the number of bytes.
  size_t take(std::byte* message, size_t received, bool streaming) {
    const size_t whole = message_bytes();
    const size_t bytes = std::min(whole - received, channel_.slot_bytes);
    copy_block(message + received, channel_.part(emptied_, whole), bytes, streaming);
    if (streaming) finish_streaming();
    channel_.memory->emptied.store(++emptied_, std::memory_order_release);
    return bytes;
  }

 private:
  Channel channel_;
  uint64_t emptied_ = 0;
};

}  // namespace plait
