// A FIFO carries the messages of one rank to one other rank, in order, through a ring of slots in shared memory. A
// message takes as many slots as it needs; an empty one takes one.
//
// Each slot begins with the number of its content, and the data follows at once. The receiver polls the cache line that
// it reads next anyway, so a few bytes cost the transfer of that one line. The receiver publishes the head, the count
// of slots that it has copied. The sender reads the head only when its tail has filled all slots that it knows to be
// empty.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/host/copy.hpp"
#include "runtime/host/store_trial.hpp"

namespace plait {

// Aligned to 64 bytes.
struct SlotHeader {
  std::atomic<uint64_t> number{0};  // of the slot's content, counted over all slots of the FIFO, from 1
  uint64_t message_bytes = 0;       // of the whole message
};

inline constexpr int kFifoSlots = 4;

// The memory of one FIFO: its slots, and the head on a cache line of its own. Plain addresses.
struct Fifo {
  std::byte* memory = nullptr;
  size_t data_bytes = 0;  // of a slot

  static constexpr size_t kLine = 64;
  static constexpr size_t kFirstLineData = kLine - sizeof(SlotHeader);  // bytes that come with the header

  SlotHeader& header(uint64_t slot) const {
    return *reinterpret_cast<SlotHeader*>(memory + kLine + slot % kFifoSlots * (sizeof(SlotHeader) + data_bytes));
  }
  std::byte* data(uint64_t slot) const { return reinterpret_cast<std::byte*>(&header(slot) + 1); }
  // Number of slots that the receiver has copied since the beginning.
  std::atomic<uint64_t>& head() const { return *reinterpret_cast<std::atomic<uint64_t>*>(memory); }

  // Data bytes of a slot if `senders` ranks send to one.
  static size_t data_bytes_for(int senders) {
    const size_t fair = kMostBytes / kFifoSlots / static_cast<size_t>(std::max(senders, 1));
    return std::clamp(fair / kLine * kLine, kLeastSlotBytes, kMostSlotBytes) + kFirstLineData;
  }
  static size_t bytes_for(size_t data_bytes) { return kLine + kFifoSlots * (sizeof(SlotHeader) + data_bytes); }

 private:
  static constexpr size_t kMostBytes = 1 << 20;  // of all FIFOs to one rank, without their first lines
  static constexpr size_t kLeastSlotBytes = 4 << 10;
  static constexpr size_t kMostSlotBytes = 64 << 10;
};

// The sender's endpoint.
class FifoSender {
 public:
  explicit FifoSender(const Fifo& fifo) : fifo_(fifo) {}

  bool has_room() {
    if (tail_ - known_head_ < kFifoSlots) return true;
    known_head_ = fifo_.head().load(std::memory_order_acquire);
    return tail_ - known_head_ < kFifoSlots;
  }

  // Call it only if has_room(). Fills a slot with the next bytes of a message, of which `sent` bytes are in the FIFO
  // already, past the caches if it `may_stream` and that is faster here. Returns their number.
  size_t put(const std::byte* message, size_t message_bytes, size_t sent, bool may_stream) {
    const size_t bytes = std::min(message_bytes - sent, fifo_.data_bytes);
    SlotHeader& header = fifo_.header(tail_);
    header.message_bytes = message_bytes;
    if (may_stream && bytes >= kLeastStreamingBytes) {
      trial_.begin_turn();
      trial_.time(bytes, [&] {
        copy_block(fifo_.data(tail_), message + sent, bytes, trial_.streams());
        if (trial_.streams()) finish_streaming();
      });
    } else {
      copy_block(fifo_.data(tail_), message + sent, bytes, false);
    }
    header.number.store(++tail_, std::memory_order_release);
    return bytes;
  }

 private:
  static constexpr size_t kLeastStreamingBytes = 4 << 10;

  Fifo fifo_;
  StoreTrial trial_;
  uint64_t tail_ = 0;
  uint64_t known_head_ = 0;  // the head as last read
};

// The receiver's endpoint.
class FifoReceiver {
 public:
  explicit FifoReceiver(const Fifo& fifo) : fifo_(fifo) {}

  bool has_slot() const { return fifo_.header(head_).number.load(std::memory_order_acquire) == head_ + 1; }

  // Call it only if has_slot(). Returns the bytes of the whole message that the slot belongs to.
  size_t message_bytes() const { return fifo_.header(head_).message_bytes; }

  // Call it only if has_slot(). Takes the next bytes of a message, of which `received` bytes are there already, past
  // the caches if `streaming`. Returns their number.
  size_t take(std::byte* message, size_t received, bool streaming) {
    const size_t whole = message_bytes();
    const size_t bytes = std::min(whole - received, fifo_.data_bytes);
    copy_block(message + received, fifo_.data(head_), bytes, streaming);
    if (streaming) finish_streaming();
    fifo_.head().store(++head_, std::memory_order_release);
    return bytes;
  }

 private:
  Fifo fifo_;
  uint64_t head_ = 0;
};

}  // namespace plait
