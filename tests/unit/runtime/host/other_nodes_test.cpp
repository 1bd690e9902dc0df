// Ranks that greet each other need their ports no more. By the UCX that this machine has; nothing to test where it has
// none.
#include "runtime/host/other_nodes.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "runtime/net/open_transport.hpp"
#include "runtime/net/port_guard.hpp"

namespace plait {
namespace {

constexpr double kLongSeconds = 60;
constexpr size_t kMessageBytes = size_t{1} << 20;

class OtherNodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("UCX_TLS", "tcp,self", 1);  // by shared memory nobody would need a port
    try {
      open_transport({"libucp.so.0"});
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // Every rank is on a node of its own.
  void start(int count) {
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<std::string> addresses;
    std::vector<int> node_of(static_cast<size_t>(count));
    std::iota(node_of.begin(), node_of.end(), 0);
    const std::vector<std::string> hosts(static_cast<size_t>(count), own_addresses());
    for (int rank = 0; rank < count; ++rank) {
      PortGuard& guard = guards_.emplace_back();
      transports.push_back(open_transport({"libucp.so.0"}, settings_of_rank()));
      addresses.push_back(transports.back()->address());
      guard.admit_only(*callers_of(rank, hosts, node_of), addresses.back());
      ports_ += guard.ports();
    }
    for (int rank = 0; rank < count; ++rank) {
      ranks_.push_back(
          std::make_unique<OtherNodes>(std::move(transports[static_cast<size_t>(rank)]), rank, addresses, node_of));
    }
  }

  std::vector<bool> greet(double seconds) {
    std::vector<char> greeted(ranks_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&, rank] { greeted[rank] = ranks_[rank] && ranks_[rank]->greet_all(seconds); });
    }
    for (std::thread& thread : threads) thread.join();
    return {greeted.begin(), greeted.end()};
  }

  // Whether a message from each rank to each other one arrives.
  bool all_reach_each_other() {
    const auto count = static_cast<int>(ranks_.size());
    std::vector<NetRequest> sends(ranks_.size() * ranks_.size()), receives(sends.size());
    std::vector<std::vector<char>> got(sends.size());
    const std::vector<char> sent(kMessageBytes, 'x');
    const auto at = [&](int from, int to) { return static_cast<size_t>(from * count + to); };
    const auto each_pair = [&](const auto& act) {
      for (int from = 0; from < count; ++from) {
        for (int to = 0; to < count; ++to) {
          if (from != to) act(from, to);
        }
      }
    };
    const auto rank = [&](int number) -> OtherNodes& { return *ranks_[static_cast<size_t>(number)]; };
    each_pair([&](int from, int to) {
      got[at(from, to)].resize(kMessageBytes);
      {
        const auto turn = rank(to).take_turn();
        rank(to).receive(from, message_tag(from, 1), got[at(from, to)].data(), kMessageBytes, receives[at(from, to)]);
      }
      const auto turn = rank(from).take_turn();
      rank(from).send(to, message_tag(from, 1), sent.data(), kMessageBytes, sends[at(from, to)]);
    });
    const Deadline deadline = Deadline::after(kLongSeconds);
    bool is_over = false;
    while (!is_over && !deadline.passed()) {
      for (int number = 0; number < count; ++number) {
        const auto turn = rank(number).take_turn();
        rank(number).progress();
      }
      is_over = true;
      each_pair([&](int from, int to) {
        is_over = is_over && !sends[at(from, to)].is_pending() && !receives[at(from, to)].is_pending();
      });
    }
    bool are_right = is_over;
    each_pair([&](int from, int to) { are_right = are_right && got[at(from, to)] == sent; });
    return are_right;
  }

  std::vector<std::unique_ptr<OtherNodes>> ranks_;
  std::vector<PortGuard> guards_;
  int ports_ = 0;
};

TEST_F(OtherNodesTest, RanksThatHaveGreetedNeedTheirPortsNoMore) {
  start(3);
  ASSERT_GE(ports_, 3);
  EXPECT_EQ(greet(kLongSeconds), std::vector<bool>(3, true));
  for (const PortGuard& guard : guards_) guard.admit_nobody();
  EXPECT_TRUE(all_reach_each_other());
}

TEST_F(OtherNodesTest, WhoeverIsGoneDoesNotAnswer) {
  start(3);
  ranks_[2].reset();
  EXPECT_EQ(greet(0.2), std::vector<bool>(3, false));
}

}  // namespace
}  // namespace plait
