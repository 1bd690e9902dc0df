// Messages between the ends of a process, by the UCX that this machine has. Nothing to test where it has none.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "runtime/net/open_transport.hpp"

namespace plait {
namespace {

class UcxTransportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      for (int i = 0; i < 2; ++i) ends_.push_back(open_transport({"libucp.so.0"}));
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    a().connect(1, b().address());
    b().connect(0, a().address());
  }

  Transport& a() { return *ends_[0]; }
  Transport& b() { return *ends_[1]; }

  void progress() {
    for (const auto& end : ends_) {
      if (end) end->progress();
    }
  }
  // Within a time that no machine needs.
  template <class Condition>
  bool comes_true(Condition condition) {
    const Deadline deadline = Deadline::after(60);
    while (!condition()) {
      if (deadline.passed()) return false;
      progress();
    }
    return true;
  }
  bool ends(const NetRequest& request) {
    return comes_true([&] { return !request.is_pending(); });
  }

  std::vector<std::unique_ptr<Transport>> ends_;
};

std::vector<uint32_t> numbers(size_t count, uint32_t first) {
  std::vector<uint32_t> data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

TEST_F(UcxTransportTest, CarriesMessagesOfAnySize) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{1} << 20}) {
    const auto sent = numbers(count, 7);
    std::vector<uint32_t> got(count);
    NetRequest send, receive;
    a().send(1, 42, sent.data(), count * 4, send);
    b().receive(42, got.data(), count * 4, receive);
    ASSERT_TRUE(ends(send) && ends(receive)) << count;
    EXPECT_EQ(send.state, NetRequest::State::kDone);
    EXPECT_EQ(receive.state, NetRequest::State::kDone);
    EXPECT_EQ(receive.bytes, count * 4);
    EXPECT_EQ(got, sent);
  }
}

TEST_F(UcxTransportTest, TagsSeparateMessagesAndOneTagKeepsTheirOrder) {
  const uint32_t data[] = {1, 2, 3};
  uint32_t got[3] = {};
  NetRequest sends[3], receives[3];
  a().send(1, 5, &data[0], 4, sends[0]);
  a().send(1, 6, &data[1], 4, sends[1]);
  a().send(1, 5, &data[2], 4, sends[2]);
  b().receive(6, &got[1], 4, receives[1]);
  b().receive(5, &got[0], 4, receives[0]);
  b().receive(5, &got[2], 4, receives[2]);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ends(sends[i]) && ends(receives[i]));
    EXPECT_EQ(got[i], data[i]);
  }
}

TEST_F(UcxTransportTest, SaysThatAMessageWasTooLong) {
  const auto sent = numbers(100, 0);
  uint32_t got = 0;
  NetRequest send, receive;
  a().send(1, 1, sent.data(), 400, send);
  b().receive(1, &got, 4, receive);
  ASSERT_TRUE(ends(receive));
  EXPECT_EQ(receive.state, NetRequest::State::kTruncated);
}

TEST_F(UcxTransportTest, ACancelledReceiveLeavesItsMemoryAlone) {
  uint32_t got = 0;
  const uint32_t sent = 3;
  NetRequest send, receive;
  b().receive(1, &got, 4, receive);
  b().cancel(receive);
  EXPECT_EQ(receive.state, NetRequest::State::kCancelled);
  a().send(1, 1, &sent, 4, send);
  ASSERT_TRUE(ends(send));
  EXPECT_TRUE(comes_true([&] { return a().flush(); }));
  EXPECT_EQ(got, 0u);
}

TEST_F(UcxTransportTest, NoticesThatAPeerIsGone) {
  uint32_t word = 1, got = 0;
  NetRequest send, receive;
  a().send(1, 1, &word, 4, send);
  b().receive(1, &got, 4, receive);
  ASSERT_TRUE(ends(send) && ends(receive));
  EXPECT_TRUE(b().loss(0).empty());
  ends_[0].reset();
  EXPECT_TRUE(comes_true([&] {
    if (!b().loss(0).empty()) return true;
    NetRequest more;  // a send needs the connection
    b().send(0, 9, &word, 4, more);
    return ends(more) && more.state == NetRequest::State::kLost;
  }));
}

// UCX would warn of each, which looks like a fault.
TEST_F(UcxTransportTest, HintsThatNobodyReceivedGoInSilence) {
  const auto sent = numbers(Transport::kMostHintBytes / 4, 0);
  NetRequest sends[3];
  for (NetRequest& send : sends) a().send(1, Transport::kHintBit, sent.data(), Transport::kMostHintBytes, send);
  for (const NetRequest& send : sends) ASSERT_TRUE(ends(send));
  ASSERT_TRUE(comes_true([&] { return a().flush(); }));
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ends_[1].reset();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// After a failure: messages of calls that end nowhere, some of them long.
TEST_F(UcxTransportTest, MessagesThatNobodyReceivedGoInSilence) {
  const auto sent = numbers(1 << 16, 0);
  NetRequest sends[6];
  for (NetRequest& send : sends) a().send(1, 7, sent.data(), &send - sends < 3 ? 4 : sent.size() * 4, send);
  for (const NetRequest& send : sends) ASSERT_TRUE(ends(send));
  for (int i = 0; i < 1000; ++i) progress();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ends_[1].reset();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(UcxTransportTest, TakesItsSettingsInSilence) {
  std::vector<UcxSetting> settings = settings_for_tcp("/that-is-not-there");
  for (const UcxSetting& it : settings_of_rank()) settings.push_back(it);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  open_transport({"libucp.so.0"}, settings).reset();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(UcxTransportTest, SleepEndsWhenAMessageComes) {
  uint32_t word = 5, got = 0;
  NetRequest send, receive;
  b().receive(1, &got, 4, receive);
  a().send(1, 1, &word, 4, send);
  const Deadline deadline = Deadline::after(60);
  while (receive.is_pending() && !deadline.passed()) {
    a().progress();
    b().sleep(1'000'000);
    b().progress();
  }
  EXPECT_EQ(got, 5u);
}

TEST(UcxTest, SaysHowToGetUcx) {
  if (!has_transport()) GTEST_SKIP() << "built without UCX";
  try {
    open_transport({"/nowhere/libucp.so.0"});  // unless some test of this process has opened one
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResources);
    for (const char* part : {"libucx0", "pip install libucx-cu13", "PLAIT_UCX_LIBRARY", "/nowhere/libucp.so.0"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace plait
