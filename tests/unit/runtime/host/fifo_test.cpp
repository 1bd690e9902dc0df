// The ring that carries messages: what goes in comes out, slot by slot, and neither end overruns the other.
#include "runtime/host/fifo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "support/seed.hpp"

namespace plait {
namespace {

constexpr size_t kSlotBytes = 4096 + Fifo::kFirstLineData;

// Memory as a segment has it: zero, and aligned to a cache line.
class Ring {
 public:
  Ring() : lines_(Fifo::bytes_for(kSlotBytes) / sizeof(Line)) {}
  Fifo fifo() { return {reinterpret_cast<std::byte*>(lines_.data()), kSlotBytes}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines_;
};

std::vector<std::byte> bytes_of(size_t count, int seed) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256 + static_cast<size_t>(seed));
  return bytes;
}

TEST(Fifo, HoldsAsManySlotsAsItHas) {
  Ring ring;
  FifoSender source(ring.fifo());
  FifoReceiver sink(ring.fifo());
  EXPECT_FALSE(sink.has_slot());
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kFifoSlots; ++i) {
      ASSERT_TRUE(source.has_room());
      EXPECT_EQ(source.put(bytes_of(8, 10 * round + i).data(), 8, 0, false), 8u);
    }
    EXPECT_FALSE(source.has_room());
    for (int i = 0; i < kFifoSlots; ++i) {
      ASSERT_TRUE(sink.has_slot());
      EXPECT_EQ(sink.message_bytes(), 8u);
      std::vector<std::byte> found(8);
      EXPECT_EQ(sink.take(found.data(), 0, false), 8u);
      EXPECT_EQ(found, bytes_of(8, 10 * round + i));
      EXPECT_TRUE(source.has_room());
    }
    EXPECT_FALSE(sink.has_slot());
  }
}

TEST(Fifo, CutsAMessageIntoSlots) {
  for (const bool streaming : {false, true}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, Fifo::kFirstLineData, Fifo::kFirstLineData + 1, kSlotBytes,
                               kSlotBytes + 1, 10 * kSlotBytes - 1}) {
      Ring ring;
      FifoSender source(ring.fifo());
      FifoReceiver sink(ring.fifo());
      const std::vector<std::byte> message = bytes_of(bytes, 3);
      std::vector<std::byte> found(bytes);
      size_t slots = 0, sent = 0, received = 0;
      do {
        ASSERT_TRUE(source.has_room());
        sent += source.put(message.data(), bytes, sent, streaming);
        ASSERT_TRUE(sink.has_slot());
        EXPECT_EQ(sink.message_bytes(), bytes);
        received += sink.take(found.data(), received, streaming);
        EXPECT_EQ(received, sent);
        ++slots;
      } while (sent < bytes);
      EXPECT_EQ(slots, std::max<size_t>(1, (bytes + kSlotBytes - 1) / kSlotBytes));
      EXPECT_EQ(found, message);
    }
  }
}

// A message of a few bytes changes one cache line of memory.
TEST(Fifo, FewBytesTakeOneLine) {
  Ring ring;
  const Fifo fifo = ring.fifo();
  FifoSender source(fifo);
  source.put(bytes_of(Fifo::kFirstLineData, 1).data(), Fifo::kFirstLineData, 0, false);
  size_t changed_lines = 0;
  for (size_t line = 0; line < Fifo::bytes_for(kSlotBytes); line += 64) {
    changed_lines +=
        std::any_of(fifo.memory + line, fifo.memory + line + 64, [](std::byte value) { return value != std::byte{0}; });
  }
  EXPECT_EQ(changed_lines, 1u);
}

TEST(Fifo, BetweenTwoThreads) {
  Ring ring;
  constexpr int kMessages = 3000;
  std::vector<size_t> sizes;
  test::Random random(test::run_seed());
  for (int i = 0; i < kMessages; ++i) {
    sizes.push_back(test::one_in(random, 2) ? test::between(random, 0, 64) : test::between(random, 0, 3 * kSlotBytes));
  }
  std::thread sender([&] {
    FifoSender source(ring.fifo());
    for (int i = 0; i < kMessages; ++i) {
      const std::vector<std::byte> message = bytes_of(sizes[i], i);
      size_t sent = 0;
      do {
        while (!source.has_room()) std::this_thread::yield();
        sent += source.put(message.data(), message.size(), sent, i % 2 == 0);
      } while (sent < message.size());
    }
  });
  FifoReceiver sink(ring.fifo());
  int wrong = 0;
  for (int i = 0; i < kMessages; ++i) {
    std::vector<std::byte> found(sizes[i]);
    size_t received = 0;
    do {
      while (!sink.has_slot()) std::this_thread::yield();
      wrong += sink.message_bytes() != sizes[i];
      received += sink.take(found.data(), received, false);
    } while (received < found.size());
    wrong += found != bytes_of(sizes[i], i);
  }
  sender.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Fifo, SlotsFitTheNumberOfSenders) {
  for (int senders = 0; senders < 1024; ++senders) {
    const size_t bytes = Fifo::data_bytes_for(senders) - Fifo::kFirstLineData;
    EXPECT_EQ(bytes % 64, 0u);
    EXPECT_GE(bytes, 4096u);
    EXPECT_LE(bytes, 65536u);
    if (senders <= 64) {
      EXPECT_LE(static_cast<size_t>(senders) * bytes * kFifoSlots, size_t{1} << 20) << senders;
    }
  }
}

}  // namespace
}  // namespace plait
