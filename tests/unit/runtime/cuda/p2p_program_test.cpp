// Messages are cut into pieces and divided among launches.
#include "runtime/cuda/p2p/p2p_program.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace plait {
namespace {

using Kind = PeerMessage::Kind;

char memory[8];

PeerMessage message(Kind kind, int peer, size_t bytes) { return {kind, peer, DataType::kUint8, bytes, memory}; }

TEST(FifoShape, FifosFitIntoTheBlockAndDoNotOverlap) {
  for (int ranks = 2; ranks <= kMostDeviceRanks; ++ranks) {
    for (const int sharing : {1, 2, ranks}) {
      for (const int sm_count : {40, 132}) {
        const FifoShape shape = FifoShape::of(ranks, sharing, sm_count);
        ASSERT_GT(shape.channels, 0u);
        ASSERT_LE(shape.channels, static_cast<uint32_t>(kMostMessageChannels));
        EXPECT_EQ(shape.slots & (shape.slots - 1), 0u);
        EXPECT_EQ(shape.slot_bytes % 128, 0u);
        EXPECT_GE(shape.data_bytes, 512u);
        EXPECT_LE(shape.data_bytes + kSlotHeader, shape.slot_bytes);
        for (int to = 0; to < ranks; ++to) {
          size_t end = BlockLayout::fifos_at();
          for (int from = 0; from < ranks; ++from) {
            if (from == to) continue;
            EXPECT_GE(shape.fifo_at(from, to), end);
            end = shape.fifo_at(from, to) + shape.fifo_bytes();
          }
          EXPECT_LE(end, BlockLayout::total_bytes());
        }
      }
    }
  }
}

TEST(FifoShape, PiecesFitIntoSlots) {
  const FifoShape shape = FifoShape::of(4, 1, 132);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{5000}, uint64_t{1} << 20, uint64_t{1} << 40}) {
    EXPECT_LE(shape.piece_bytes(bytes), shape.data_bytes);
    EXPECT_EQ(shape.piece_bytes(bytes) % 512, 0u);
  }
  EXPECT_LT(shape.piece_bytes(200'000), shape.piece_bytes(100'000'000));
}

TEST(Exchange, RowsKeepTheOrderAndSkipTheRankItself) {
  const FifoShape shape = FifoShape::of(3, 1, 132);
  const std::vector<PeerMessage> messages = {message(Kind::kSend, 2, 10), message(Kind::kReceive, 0, 20),
                                             message(Kind::kSend, 1, 30), message(Kind::kReceive, 1, 30),
                                             message(Kind::kSend, 2, 40)};
  const auto parts = divide(messages, 1, 3, shape);
  ASSERT_EQ(parts.size(), 1u);
  ASSERT_EQ(parts[0].rows.size(), 2u);
  EXPECT_FALSE(parts[0].rows[0].sends);
  EXPECT_EQ(parts[0].rows[0].peer, 0);
  EXPECT_TRUE(parts[0].rows[1].sends);
  EXPECT_EQ(parts[0].rows[1].peer, 2);
  EXPECT_EQ(parts[0].rows[1].count, 2);
  EXPECT_EQ(parts[0].messages[parts[0].rows[1].first].bytes, 10u);
  EXPECT_EQ(parts[0].messages[parts[0].rows[1].first + 1].bytes, 40u);
  EXPECT_EQ(parts[0].channels, 1u);
}

// Both ends put the n-th message into the same launch, whatever else they exchange.
TEST(Exchange, LaunchesAreTheSameAtBothEnds) {
  for (const int ranks : {2, 5, 16}) {
    const FifoShape shape = FifoShape::of(ranks, 1, 132);
    std::vector<PeerMessage> sender, receiver;
    for (size_t i = 0; i < 100; ++i) {
      sender.push_back(message(Kind::kSend, 1, i));
      if (ranks > 2 && i % 3 == 0) sender.push_back(message(Kind::kReceive, 2, 7));
      receiver.push_back(message(Kind::kReceive, 0, i));
    }
    const auto sent = divide(sender, 0, ranks, shape), received = divide(receiver, 1, ranks, shape);
    ASSERT_EQ(sent.size(), received.size());
    for (size_t part = 0; part < sent.size(); ++part) {
      ASSERT_LE(sent[part].messages.size(), static_cast<size_t>(kMostMessages));
      ASSERT_LE(sent[part].rows.size(), static_cast<size_t>(kMostRows));
      const MessageRow out = sent[part].rows.back(), in = received[part].rows.front();
      ASSERT_TRUE(out.sends);
      ASSERT_EQ(out.count, in.count);
      for (int i = 0; i < out.count; ++i) {
        EXPECT_EQ(sent[part].messages[out.first + i].bytes, received[part].messages[in.first + i].bytes);
      }
    }
  }
}

TEST(Exchange, NoMessagesNeedNoLaunch) { EXPECT_TRUE(divide({}, 0, 2, FifoShape::of(2, 1, 132)).empty()); }

}  // namespace
}  // namespace plait
