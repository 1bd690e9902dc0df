// A fifo carries the messages of one rank to one other, in their order, through a ring of slots in memory that both
// share. A message takes as many slots as it needs, one where it is empty.
//
// Each slot begins with a number that says which content of this slot it is, and its data follows at once: what the
// receiver waits for is the line that it reads next anyway, and a few bytes take the transfer of that one line. The
// receiver counts the slots that it has emptied; the sender looks at that count only when all slots that it knows to be
// empty are filled.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/host/copy.hpp"

namespace plait {

// At a multiple of 64 bytes.
struct SlotHeader {
  std::atomic<uint64_t> number{0};  // of the slot's content, counted over all slots of the fifo, from 1
  uint64_t message_bytes = 0;       // of the whole message
};

inline constexpr int kFifoSlots = 4;

// One fifo's memory: its slots, and the count of those emptied on a line of its own. A plain address.
struct Fifo {
  std::byte* memory = nullptr;
  size_t data_bytes = 0;  // of a slot

  static constexpr size_t kLine = 64;
  static constexpr size_t kFirstLineData = kLine - sizeof(SlotHeader);  // bytes that come with the header

  SlotHeader& header(uint64_t slot) const {
    return *reinterpret_cast<SlotHeader*>(memory + kLine + slot % kFifoSlots * (sizeof(SlotHeader) + data_bytes));
  }
  std::byte* data(uint64_t slot) const { return reinterpret_cast<std::byte*>(&header(slot) + 1); }
  // Slots, since the beginning.
  std::atomic<uint64_t>& emptied() const { return *reinterpret_cast<std::atomic<uint64_t>*>(memory); }

  // The data of one slot, where so many ranks send to one.
  static size_t data_bytes_for(int senders) {
    const size_t fair = kMostBytes / kFifoSlots / static_cast<size_t>(std::max(senders, 1));
    return std::clamp(fair / kLine * kLine, kLeastSlotBytes, kMostSlotBytes) + kFirstLineData;
  }
  static size_t bytes_for(size_t data_bytes) { return kLine + kFifoSlots * (sizeof(SlotHeader) + data_bytes); }

 private:
  static constexpr size_t kMostBytes = 1 << 20;  // of all fifos to one rank, but for first lines
  static constexpr size_t kLeastSlotBytes = 4 << 10;
  static constexpr size_t kMostSlotBytes = 64 << 10;
};

// The sender's end.
class FifoSource {
 public:
  explicit FifoSource(const Fifo& fifo) : fifo_(fifo) {}

  bool has_room() {
    if (filled_ - emptied_ < kFifoSlots) return true;
    emptied_ = fifo_.emptied().load(std::memory_order_acquire);
    return filled_ - emptied_ < kFifoSlots;
  }

  // Where there is room: fills a slot with what comes next of a message of which `sent` bytes are in the fifo, past
  // the caches if `streaming`. Gives the number of bytes.
  size_t put(const std::byte* message, size_t message_bytes, size_t sent, bool streaming) {
    const size_t bytes = std::min(message_bytes - sent, fifo_.data_bytes);
    SlotHeader& header = fifo_.header(filled_);
    header.message_bytes = message_bytes;
    copy_block(fifo_.data(filled_), message + sent, bytes, streaming);
    if (streaming) finish_streaming();
    header.number.store(++filled_, std::memory_order_release);
    return bytes;
  }

 private:
  Fifo fifo_;
  uint64_t filled_ = 0;
  uint64_t emptied_ = 0;  // as far as it knows
};

// The receiver's end.
class FifoSink {
 public:
  explicit FifoSink(const Fifo& fifo) : fifo_(fifo) {}

  bool has_slot() const { return fifo_.header(emptied_).number.load(std::memory_order_acquire) == emptied_ + 1; }

  // Where there is a slot: the bytes of the whole message that it belongs to.
  size_t message_bytes() const { return fifo_.header(emptied_).message_bytes; }

  // Where there is a slot: takes what comes next of a message of which `received` bytes are there, past the caches if
  // `streaming`. Gives the number of bytes.
  size_t take(std::byte* message, size_t received, bool streaming) {
    const size_t whole = message_bytes();
    const size_t bytes = std::min(whole - received, fifo_.data_bytes);
    copy_block(message + received, fifo_.data(emptied_), bytes, streaming);
    if (streaming) finish_streaming();
    fifo_.emptied().store(++emptied_, std::memory_order_release);
    return bytes;
  }

 private:
  Fifo fifo_;
  uint64_t emptied_ = 0;
};

}  // namespace plait
