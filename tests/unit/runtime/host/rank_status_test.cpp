// Call records: other ranks read them whole or not at all.
#include "runtime/host/rank_status.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace plait {
namespace {

// A call whose fields all follow from one number.
Call call_for(uint64_t number) {
  Call call{static_cast<Collective>(number % kCollectiveCount), static_cast<DataType>(number % kDataTypeCount),
            static_cast<ReduceOp>(number % kReduceOpCount), static_cast<int>(number % 1000), number * number};
  call.is_split = number % 2 == 0;
  call.is_blocking = number % 3 == 0;
  call.order = static_cast<uint32_t>(number * 3);
  call.plan = number * 0x9e3779b97f4a7c15ULL;
  return call;
}

TEST(RankStatus, WhatIsPublishedIsFound) {
  const auto status = std::make_unique<RankStatus>();
  Call call;
  EXPECT_FALSE(look_up(status->calls, 1, call));
  for (uint64_t number = 1; number <= 100; ++number) {
    publish(status->calls, number, call_for(number));
    EXPECT_EQ(status->calls.entered.load(), number);
    ASSERT_TRUE(look_up(status->calls, number, call));
    EXPECT_EQ(call, call_for(number));
    EXPECT_FALSE(look_up(status->calls, number + 1, call));
  }
  for (uint64_t number = 1; number <= 100; ++number) {
    EXPECT_EQ(look_up(status->calls, number, call), number > 100 - kCallHistory) << number;
  }
}

TEST(RankStatus, ExtremeFields) {
  const auto status = std::make_unique<RankStatus>();
  const Call extreme{Collective::kBarrier, DataType::kUint16, ReduceOp::kAverage, -1, SIZE_MAX};
  publish(status->calls, UINT64_MAX, extreme);
  Call call;
  ASSERT_TRUE(look_up(status->calls, UINT64_MAX, call));
  EXPECT_EQ(call, extreme);
}

TEST(RankStatus, LogsDifferWhereRanksOnceCalledDifferently) {
  const auto status = std::make_unique<RankStatus>(), other = std::make_unique<RankStatus>();
  EXPECT_FALSE(differ(status->calls, other->calls));
  for (uint64_t number = 1; number <= 100; ++number) {
    publish(status->calls, number, call_for(number));
    EXPECT_FALSE(differ(status->calls, other->calls)) << number;  // one rank is ahead
    publish(other->calls, number, call_for(number));
    EXPECT_FALSE(differ(status->calls, other->calls)) << number;
  }
  publish(status->calls, 101, call_for(1));
  publish(other->calls, 101, call_for(2));
  for (uint64_t number = 102; number <= 200; ++number) {
    EXPECT_TRUE(differ(status->calls, other->calls) && differ(other->calls, status->calls)) << number;
    for (RankStatus* it : {status.get(), other.get()}) publish(it->calls, number, call_for(number));
  }
}

TEST(RankStatus, LogsDifferAlsoWhereOneRankIsFarAhead) {
  const auto status = std::make_unique<RankStatus>(), other = std::make_unique<RankStatus>(),
             equal = std::make_unique<RankStatus>();
  const auto publish_on = [](RankStatus& it, uint64_t first, uint64_t last) {
    for (uint64_t number = first; number <= last; ++number) publish(it.calls, number, call_for(number));
  };
  publish(status->calls, 1, call_for(1));
  publish(equal->calls, 1, call_for(1));
  publish(other->calls, 1, call_for(2));
  for (RankStatus* it : {other.get(), equal.get()}) publish_on(*it, 2, 200);
  constexpr uint64_t kFar = 192 + kCheckpoints * kCheckpointCalls;  // call 192, the last checkpoint, is lost there
  for (uint64_t number = 2; number < kFar; ++number) {
    publish(status->calls, number, call_for(number));
    EXPECT_FALSE(differ(status->calls, equal->calls) || differ(equal->calls, status->calls)) << number;
    if (number < kCheckpointCalls || number == kFar - 1) continue;
    EXPECT_TRUE(differ(status->calls, other->calls) && differ(other->calls, status->calls)) << number;
  }
  publish_on(*status, kFar, kFar);
  EXPECT_FALSE(differ(status->calls, other->calls));  // too far ahead to tell
  publish_on(*other, 201, 256);
  EXPECT_TRUE(differ(status->calls, other->calls) && differ(other->calls, status->calls));
  publish_on(*equal, 201, 256);
  EXPECT_FALSE(differ(status->calls, equal->calls) || differ(equal->calls, status->calls));
}

// One thread writes, and overwrites what the other compares with, while it compares.
TEST(RankStatus, EqualLogsNeverDiffer) {
  const auto status = std::make_unique<RankStatus>(), behind = std::make_unique<RankStatus>();
  constexpr uint64_t kCalls = 200'000;
  std::thread writer([&] {
    for (uint64_t number = 1; number <= kCalls; ++number) publish(status->calls, number, call_for(number));
  });
  for (uint64_t number = 1; number <= kCalls; ++number) {
    publish(behind->calls, number, call_for(number));
    if (number % 8 != 0) continue;
    ASSERT_FALSE(differ(behind->calls, status->calls)) << number;
  }
  writer.join();
}

NumberedMessage message_for(uint64_t number) {
  return {{number % 3 == 0 ? PeerMessage::Kind::kSend : PeerMessage::Kind::kReceive, static_cast<int>(number % 1000),
           static_cast<DataType>(number % kDataTypeCount), number * number, nullptr},
          number};
}

void expect_equal(const NumberedMessage& found, const NumberedMessage& expected) {
  EXPECT_EQ(to_text(found, 1000), to_text(expected, 1000));
}

TEST(RankStatus, AMessageThatIsPublishedIsFound) {
  const auto status = std::make_unique<RankStatus>();
  NumberedMessage found;
  EXPECT_FALSE(look_up(status->exchanges, found));
  for (uint64_t number = 1; number <= 50; ++number) {
    publish(status->exchanges, message_for(number));
    ASSERT_TRUE(look_up(status->exchanges, found));
    expect_equal(found, message_for(number));
  }
}

TEST(RankStatus, MessagesInWords) {
  const NumberedMessage sent{{PeerMessage::Kind::kSend, 3, DataType::kFloat32, 10, nullptr}, 7};
  EXPECT_EQ(to_text(sent, 1), "send of 10 float32 to rank 3 (message 7 from rank 1 to rank 3)");
  const NumberedMessage received{{PeerMessage::Kind::kReceive, 3, DataType::kInt8, 0, nullptr}, 1};
  EXPECT_EQ(to_text(received, 1), "receive of 0 int8 from rank 3 (message 1 from rank 3 to rank 1)");
}

TEST(RankStatus, ReadersNeverSeeHalfAMessage) {
  const auto status = std::make_unique<RankStatus>();
  constexpr uint64_t kMessages = 40'000;
  publish(status->exchanges, message_for(1));
  std::thread writer([&] {
    for (uint64_t number = 2; number <= kMessages; ++number) publish(status->exchanges, message_for(number));
  });
  NumberedMessage found;
  for (uint64_t number = 0; number < kMessages;) {
    if (!look_up(status->exchanges, found)) continue;
    EXPECT_GE(found.number, number);
    number = found.number;
    expect_equal(found, message_for(number));
  }
  writer.join();
}

TEST(RankStatus, ReadersNeverSeeHalfACall) {
  const auto status = std::make_unique<RankStatus>();
  constexpr uint64_t kCalls = 40'000;
  std::thread writer([&] {
    for (uint64_t number = 1; number <= kCalls; ++number) publish(status->calls, number, call_for(number));
  });
  size_t found = 0;
  for (uint64_t entered = 0; entered < kCalls;) {
    entered = status->calls.entered.load(std::memory_order_acquire);
    for (uint64_t age = 0; age < kCallHistory + 2; ++age) {
      Call call;
      if (entered <= age || !look_up(status->calls, entered - age, call)) continue;
      ++found;
      EXPECT_EQ(call, call_for(entered - age));
    }
  }
  writer.join();
  EXPECT_GE(found, static_cast<size_t>(kCallHistory));
}

}  // namespace
}  // namespace plait
