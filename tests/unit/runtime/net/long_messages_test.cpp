// Long messages between two ends of a network that is late.
#include "runtime/net/long_messages.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/late_transport.hpp"

namespace plait::test {
namespace {

constexpr size_t kShort = LongMessages::kMostShortBytes;
constexpr uint64_t kTag = 7;

class LongMessagesTest : public ::testing::Test {
 protected:
  LongMessagesTest() { sender_->connect(1, receiver_->address()); }

  void send(const std::vector<char>& data) {
    if (LongMessages::are_long(data.size())) return sends_.send(1, kTag, data.data(), data.size(), send_);
    sender_->send(1, kTag, data.data(), data.size(), send_);
  }
  void receive(std::vector<char>& data) {
    if (LongMessages::are_long(data.size())) return receives_.receive(kTag, data.data(), data.size(), receive_);
    receiver_->receive(kTag, data.data(), data.size(), receive_);
  }
  void progress() {
    sender_->progress();
    sends_.advance();
    receiver_->progress();
    receives_.advance();
  }
  void await(const NetRequest& request) {
    while (request.is_pending()) progress();
  }

  Random random_{run_seed()};
  LateNetwork network_{2, run_seed()};
  const std::unique_ptr<Transport> sender_ = network_.end(0), receiver_ = network_.end(1);
  LongMessages sends_{*sender_}, receives_{*receiver_};
  NetRequest send_, receive_;
};

std::vector<char> random_bytes(Random& random, size_t bytes) {
  std::vector<char> data(bytes);
  for (char& byte : data) byte = static_cast<char>(random());
  return data;
}

TEST_F(LongMessagesTest, ArriveAsTheyWereSent) {
  for (int i = 0; i < times_to_try(20); ++i) {
    const size_t parts = between(random_, 0, 40), rest = between(random_, 1, 300'000);
    const std::vector<char> data =
        random_bytes(random_, kShort + parts * (kShort * 2) + (one_in(random_, 3) ? 1 : rest));
    std::vector<char> got(data.size());
    send(data);
    receive(got);
    await(send_);
    await(receive_);
    EXPECT_EQ(send_.state, NetRequest::State::kDone);
    EXPECT_EQ(receive_.state, NetRequest::State::kDone);
    EXPECT_EQ(receive_.bytes, data.size());
    ASSERT_TRUE(got == data) << data.size() << " bytes";
  }
}

// As the pieces of a plan's message do: all are sent at once, and each receive begins when the one before is over.
TEST_F(LongMessagesTest, StayInTheirOrder) {
  for (int i = 0; i < times_to_try(40); ++i) {
    std::vector<std::vector<char>> sent;
    const size_t count = between(random_, 2, 5);
    for (size_t m = 0; m < count; ++m) {
      const size_t most = one_in(random_, 3) ? kShort : 60 * kShort;
      sent.push_back(random_bytes(random_, between(random_, 1, most)));
    }
    std::vector<NetRequest> sends(count);
    for (size_t m = 0; m < count; ++m) {
      if (LongMessages::are_long(sent[m].size()) || sends_.are_ahead(1, kTag)) {
        sends_.send(1, kTag, sent[m].data(), sent[m].size(), sends[m]);
      } else {
        sender_->send(1, kTag, sent[m].data(), sent[m].size(), sends[m]);
      }
    }
    for (size_t m = 0; m < count; ++m) {
      std::vector<char> got(sent[m].size());
      receive(got);
      await(receive_);
      ASSERT_EQ(receive_.state, NetRequest::State::kDone) << "message " << m;
      ASSERT_TRUE(got == sent[m]) << "message " << m << " of " << got.size() << " bytes";
    }
    for (const NetRequest& it : sends) await(it);
  }
}

// A message of another size never passes for the awaited one, and nothing is written behind its memory.
TEST_F(LongMessagesTest, TellThatTheirSizesDiffer) {
  for (int i = 0; i < times_to_try(200); ++i) {
    LateNetwork network(2, random_());
    const auto from = network.end(0), to = network.end(1);
    from->connect(1, to->address());
    LongMessages sends(*from), receives(*to);
    // Often a whole number of parts, or of batches.
    const auto any_size = [&] {
      const size_t unit = any_of(random_, std::vector<size_t>{1, 8, kShort, 2 * kShort, 16 * kShort});
      return between(random_, 0, std::min<size_t>(40, 40 * kShort / unit)) * unit + (one_in(random_, 2) ? 1 : 0);
    };
    const size_t sent = any_size();
    size_t awaited = any_size();
    if (sent == awaited) ++awaited;
    if (!LongMessages::are_long(awaited) && !LongMessages::are_long(sent)) continue;
    const std::vector<char> data(sent, 'x');
    std::vector<char> got(awaited + 1, 'y');
    NetRequest send, receive;
    if (LongMessages::are_long(sent)) {
      sends.send(1, kTag, data.data(), sent, send);
    } else {
      from->send(1, kTag, data.data(), sent, send);
    }
    if (LongMessages::are_long(awaited)) {
      receives.receive(kTag, got.data(), awaited, receive);
    } else {
      to->receive(kTag, got.data(), awaited, receive);
    }
    while (receive.is_pending()) {
      from->progress();
      sends.advance();
      to->progress();
      receives.advance();
    }
    const bool is_right = receive.state == NetRequest::State::kDone && receive.bytes == awaited;
    EXPECT_FALSE(is_right) << sent << " bytes passed for " << awaited;
    EXPECT_TRUE(receive.state != NetRequest::State::kDone || receive.bytes < awaited) << sent;
    EXPECT_EQ(got.back(), 'y');
    from->disconnect();  // while there is memory for what has not come
    to->disconnect();
  }
}

// Counts what has left for a rank that has not come to its receive.
class CountedTransport final : public Transport {
 public:
  explicit CountedTransport(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}
  size_t bytes() const { return bytes_; }

  std::string name() const override { return transport_->name(); }
  const std::string& address() const override { return transport_->address(); }
  void connect(int rank, const std::string& address) override { transport_->connect(rank, address); }
  bool is_connected(int rank) const override { return transport_->is_connected(rank); }
  void send(int rank, uint64_t tag, const void* data, size_t bytes, NetRequest& request, SendEnds ends,
            NetMemory) override {
    bytes_ += bytes;
    if (ends == SendEnds::kTaken) return transport_->send(rank, tag, data, bytes, request, ends);
    request.state = NetRequest::State::kDone;  // as if it had left
  }
  void receive(uint64_t, void*, size_t, NetRequest&, NetMemory) override {}
  void cancel(NetRequest& request) override { transport_->cancel(request); }
  bool progress() override { return transport_->progress(); }
  int event() const override { return -1; }
  bool arm() override { return false; }
  void sleep(long) override {}
  bool flush() override { return true; }
  const std::string& loss(int rank) const override { return transport_->loss(rank); }
  void disconnect() override { transport_->disconnect(); }

 private:
  const std::unique_ptr<Transport> transport_;
  size_t bytes_ = 0;
};

TEST_F(LongMessagesTest, FewPartsLeaveForAReceiverThatIsLate) {
  CountedTransport counted(network_.end(0));
  counted.connect(1, receiver_->address());
  LongMessages sends(counted);
  const std::vector<char> data(size_t{64} << 20);
  sends.send(1, kTag, data.data(), data.size(), send_);
  for (int i = 0; i < 100; ++i) {
    counted.progress();
    sends.advance();
  }
  EXPECT_TRUE(send_.is_pending());
  EXPECT_LE(counted.bytes(), size_t{4} << 20);
  counted.disconnect();
  sends.advance();
  EXPECT_EQ(send_.state, NetRequest::State::kLost);
}

TEST_F(LongMessagesTest, AReceiveCanBeGivenUp) {
  std::vector<char> got(size_t{4} << 20, 'y');
  receive(got);
  receives_.cancel(receive_);
  EXPECT_EQ(receive_.state, NetRequest::State::kCancelled);
  const std::vector<char> data(got.size(), 'x');
  send(data);
  for (int i = 0; i < 100; ++i) progress();
  EXPECT_TRUE(got == std::vector<char>(got.size(), 'y'));
  sender_->disconnect();
  sends_.advance();
  EXPECT_EQ(send_.state, NetRequest::State::kLost);
}

}  // namespace
}  // namespace plait::test
