// Who reaches a guarded port, with sockets of this process in place of UCX's.
#include "runtime/net/port_guard.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "runtime/host_identity.hpp"
#include "runtime/stream_socket.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using test::between;
using test::one_in;
using test::Random;
using test::run_seed;

InternetAddress address(const std::string& text) { return resolve(text, "this test").front(); }

// As UCX's address has it, among other bytes.
std::string naming(uint16_t port) {
  return join("xy", static_cast<char>(port >> 8), static_cast<char>(port & 0xff), "z");
}

struct Listener {
  explicit Listener(const std::string& at) : socket(listen_at(SocketAddress::at(address(at), 0))) {}

  SocketAddress place() const { return SocketAddress::of(socket.get()); }
  std::string name() const { return naming(place().port()); }
  bool is_reached() const { return connect_to(place()).error == 0; }
  // From an address of the loopback network.
  bool is_reached_from(const InternetAddress& from) const {
    const UniqueFd caller = new_socket(AF_INET);
    const SocketAddress own = SocketAddress::at(from, 0);
    EXPECT_EQ(::bind(caller.get(), own.get(), own.length()), 0);
    ::connect(caller.get(), place().get(), place().length());
    return accept().error == 0;
  }
  // Over loopback a connection is there at once, or the kernel has dropped it.
  SocketOrError accept() const {
    pollfd entry{socket.get(), POLLIN, 0};
    ::poll(&entry, 1, 100);
    return accept_from(socket.get());
  }

  const UniqueFd socket;
};

bool has_ipv6() {
  try {
    return static_cast<bool>(Listener("::1").socket);
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> loopback_addresses() {
  return has_ipv6() ? std::vector<std::string>{"127.0.0.1", "::1"} : std::vector<std::string>{"127.0.0.1"};
}

TEST(PortGuard, OnlyCallersReachAPortAndThenNobody) {
  for (const std::string& own : loopback_addresses()) {
    for (const bool is_caller : {false, true}) {
      PortGuard guard;
      const Listener listener(own);
      std::vector<InternetAddress> callers{address("10.1.2.3"), address("fd00::9")};
      if (is_caller) callers.push_back(address(own));
      guard.admit_only(callers, listener.name());
      EXPECT_EQ(guard.ports(), 1);
      EXPECT_EQ(listener.is_reached(), is_caller) << own;
      guard.admit_nobody();
      EXPECT_FALSE(listener.is_reached()) << own;
    }
  }
}

TEST(PortGuard, ConnectionsGoOnWhenNobodyIsAdmittedAnyMore) {
  PortGuard guard;
  const Listener listener("127.0.0.1");
  guard.admit_only({address("127.0.0.1")}, listener.name());
  ASSERT_EQ(guard.ports(), 1);
  const SocketOrError near = connect_to(listener.place());
  const SocketOrError far = listener.accept();
  ASSERT_TRUE(near.socket && far.socket);
  guard.admit_nobody();
  const uint64_t sent = run_seed();
  uint64_t got = 0;
  const Deadline deadline = Deadline::after(60);
  EXPECT_EQ(send_all(near.socket.get(), bytes_of(sent), deadline), Progress::kDone);
  EXPECT_EQ(receive_all(far.socket.get(), writable_bytes_of(got), deadline), Progress::kDone);
  EXPECT_EQ(got, sent);
}

TEST(PortGuard, LeavesOtherSocketsAlone) {
  const Listener earlier("127.0.0.1");
  PortGuard guard;
  const Listener of_ucx("127.0.0.1"), of_another_thread("127.0.0.1");
  guard.admit_only({}, of_ucx.name() + earlier.name());
  EXPECT_EQ(guard.ports(), 1);
  EXPECT_TRUE(earlier.is_reached());
  EXPECT_TRUE(of_another_thread.is_reached());
  EXPECT_FALSE(of_ucx.is_reached());
}

// UCX closes a port when it cannot accept, and the program may get its number.
TEST(PortGuard, LeavesASocketAloneThatHasTheNumberOfOneThatIsClosed) {
  PortGuard guard;
  auto of_ucx = std::make_unique<Listener>("127.0.0.1");
  guard.admit_only({}, of_ucx->name());
  ASSERT_EQ(guard.ports(), 1);
  const int number = of_ucx->socket.get();
  of_ucx.reset();
  const Listener next("127.0.0.1");
  ASSERT_EQ(next.socket.get(), number);
  guard.admit_nobody();
  EXPECT_TRUE(next.is_reached());
}

// A socket that listened before may have been closed meanwhile.
TEST(PortGuard, GuardsAPortThatHasTheNumberOfAnEarlierSocket) {
  auto earlier = std::make_unique<Listener>("127.0.0.1");
  PortGuard guard;
  const int number = earlier->socket.get();
  const UniqueFd kept(::dup(number));  // so that its port is not free again
  earlier.reset();
  const Listener of_ucx("127.0.0.1");
  ASSERT_EQ(of_ucx.socket.get(), number);
  guard.admit_only({}, of_ucx.name());
  EXPECT_EQ(guard.ports(), 1);
  EXPECT_FALSE(of_ucx.is_reached());
}

bool contains(const AddressBlocks& blocks, const InternetAddress& it) {
  const auto bit = [](const InternetAddress& of, int at) { return of.bytes[at / 8] >> (7 - at % 8) & 1; };
  return std::ranges::any_of(blocks.first, [&](const InternetAddress& first) {
    for (int at = 0; at < blocks.bits; ++at) {
      if (bit(first, at) != bit(it, at)) return false;
    }
    return first.family == it.family;
  });
}

// Addresses that share their first bits, as many of them as `random` says.
std::vector<InternetAddress> random_addresses(Random& random, InternetAddress near, int bytes, size_t count) {
  const auto kept = static_cast<int>(between(random, 0, static_cast<uint64_t>(bytes) - 1));
  std::vector<InternetAddress> all;
  while (all.size() < count) {
    for (int byte = kept; byte < bytes; ++byte) near.bytes[static_cast<size_t>(byte)] = static_cast<uint8_t>(random());
    all.push_back(near);
  }
  return all;
}

TEST(PortGuard, BlocksContainAllAddressesAndAreNotLargerThanTheyMust) {
  Random random(run_seed());
  for (int round = 0; round < 200; ++round) {
    const bool is_ipv4 = one_in(random, 2);
    const auto all = random_addresses(random, address(is_ipv4 ? "10.20.30.40" : "fd77::1"), is_ipv4 ? 4 : 16,
                                      between(random, 1, 100));
    const size_t most = between(random, 1, 100);
    const AddressBlocks blocks = blocks_of(all, most);
    EXPECT_LE(blocks.first.size(), most);
    for (const InternetAddress& it : all) EXPECT_TRUE(contains(blocks, it)) << it.text();
    if (blocks.bits == (is_ipv4 ? 32 : 128)) continue;
    EXPECT_GT(blocks_of(all, most + 1'000'000).first.size(), most);
    std::vector<InternetAddress> halves;  // blocks of one bit more
    for (InternetAddress it : all) {
      for (int at = blocks.bits + 1; at < 8 * static_cast<int>(it.bytes.size()); ++at) {
        it.bytes[static_cast<size_t>(at / 8)] &= static_cast<uint8_t>(~(0x80 >> at % 8));
      }
      if (std::ranges::find(halves, it) == halves.end()) halves.push_back(it);
    }
    EXPECT_GT(halves.size(), most);
  }
  EXPECT_TRUE(blocks_of({}, 1).first.empty());
}

// An address outside of `blocks` that differs from `near` in one bit; none where the blocks hold them all.
std::optional<InternetAddress> neighbour_outside(Random& random, const AddressBlocks& blocks, InternetAddress near) {
  const auto first = static_cast<int>(between(random, 0, 23));
  for (int i = 0; i < 24; ++i) {
    const int bit = (first + i) % 24;
    InternetAddress it = near;
    it.bytes[static_cast<size_t>(1 + bit / 8)] ^= static_cast<uint8_t>(1 << bit % 8);
    const bool is_broadcast = it.bytes[3] == 0 || it.bytes[3] == 255;
    if (!is_broadcast && !contains(blocks, it)) return it;
  }
  return std::nullopt;
}

// The kernel's filter and the blocks say the same of random addresses.
TEST(PortGuard, TheKernelAdmitsWhoIsInABlock) {
  constexpr size_t kMost = 64;
  Random random(run_seed());
  int missed = 0;
  for (int round = 0; round < test::times_to_try(20); ++round) {
    const size_t count = round % 2 == 0 ? between(random, 1, kMost) : between(random, kMost + 1, 500);
    auto callers = random_addresses(random, address("127.0.0.1"), 4, count);
    for (InternetAddress& it : callers) {
      it.bytes[0] = 127;
      it.bytes[3] = static_cast<uint8_t>(1 + it.bytes[3] % 254);  // no broadcast
    }
    PortGuard guard;
    const Listener listener("127.0.0.1");
    guard.admit_only(callers, listener.name());
    ASSERT_EQ(guard.ports(), 1);
    const InternetAddress caller = callers[random() % count];
    EXPECT_TRUE(listener.is_reached_from(caller)) << caller.text();
    const auto stranger = neighbour_outside(random, blocks_of(callers, kMost), caller);
    if (!stranger) continue;
    EXPECT_FALSE(listener.is_reached_from(*stranger)) << stranger->text();
    ++missed;
  }
  EXPECT_GT(missed, 0);  // few callers are blocks of one address each: they have such neighbours
}

TEST(PortGuard, TheKernelAdmitsWhoIsInABlockOfIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  constexpr size_t kMost = 64;
  Random random(run_seed());
  for (int round = 0; round < test::times_to_try(20); ++round) {
    const size_t count = one_in(random, 2) ? between(random, 1, kMost) : between(random, kMost + 1, 500);
    const auto callers = random_addresses(random, address("::1"), 16, count);
    PortGuard guard;
    const Listener listener("::1");
    guard.admit_only(callers, listener.name());
    ASSERT_EQ(guard.ports(), 1);
    EXPECT_EQ(listener.is_reached(), contains(blocks_of(callers, kMost), address("::1")));
  }
}

std::string of_another_machine(std::string text) {
  text.front() = static_cast<char>(text.front() + 1);
  return text;
}

TEST(PortGuard, CallersAreTheRanksOfOtherNodes) {
  const std::string here = own_addresses(), there = of_another_machine(here);
  const auto all = *callers_of(0, {here, here}, {0, 1});
  EXPECT_NE(std::ranges::find(all, address("127.0.0.1")), all.end());  // PLAIT_HOST_ID
  const auto far = *callers_of(0, {here, there}, {0, 1});
  EXPECT_TRUE(std::ranges::none_of(far, [](const InternetAddress& it) { return it.is_loopback(); }));
  EXPECT_EQ(callers_of(1, {there, here, there}, {0, 1, 0}), far);
  EXPECT_TRUE(callers_of(0, {here, there}, {0, 0})->empty());
}

TEST(PortGuard, CallersAreUnknownWhereARankDoesNotKnowItsAddresses) {
  const std::string here = own_addresses(), none = of_another_machine(here).substr(0, sizeof(HostIdentity::digest));
  EXPECT_FALSE(callers_of(0, {here, of_another_machine(here), none}, {0, 1, 2}));
  EXPECT_TRUE(callers_of(0, {none, here, none}, {0, 1, 0}));
}

}  // namespace
}  // namespace plait
