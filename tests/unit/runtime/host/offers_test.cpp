// Every meeting ends the same way for all ranks, whenever they come, and every offer that is read belongs to the right
// call.
#include "runtime/offers.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "runtime/host/segment.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kNoTimeout = seconds(0);
constexpr auto kLong = seconds(60);
const std::function<void()> kNoLook = [] {};

// An offer whose bytes all follow from the rank and the number of its call.
Offer offer_of(int rank, uint64_t call) {
  test::Random random(call * 256 + static_cast<uint64_t>(rank));
  Offer offer;
  for (std::byte& byte : offer) byte = static_cast<std::byte>(random());
  return offer;
}

bool conclude(Offers& offers, bool can, const std::function<void()>& look) {
  offers.answer(can);
  return offers.all_can(look);
}

// All ranks, which the test moves one by one. Steps that must not wait get no timeout.
class Ranks {
 public:
  explicit Ranks(int ranks) : segment_({ranks, 0, 0}) {
    for (int rank = 0; rank < ranks; ++rank) offers_.emplace_back(segment_.offers(), rank, ranks);
  }

  Offers& operator[](int rank) { return offers_[static_cast<size_t>(rank)]; }
  int count() const { return static_cast<int>(offers_.size()); }
  // Makes a call with a meeting for which all are in time. Returns how many concluded that all can.
  int meet(uint64_t call, int refuser = -1) {
    for (int rank = 0; rank < count(); ++rank) EXPECT_TRUE((*this)[rank].put(offer_of(rank, call)));
    std::atomic<int> agreed{0};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count(); ++rank) {
      threads.emplace_back([&, rank] {
        Offers& own = (*this)[rank];
        ASSERT_TRUE(own.all_put(kNoTimeout));
        for (int peer = 0; peer < count(); ++peer) EXPECT_EQ(own.of(peer), offer_of(peer, call));
        agreed += conclude(own, rank != refuser, kNoLook);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return agreed;
  }
  // A failed meeting of one rank, and the calls after it that are skipped.
  void miss(int rank, int skips) {
    ASSERT_TRUE((*this)[rank].put({}));
    EXPECT_FALSE((*this)[rank].all_put(kNoTimeout));
    for (int i = 0; i < skips; ++i) ASSERT_FALSE((*this)[rank].put({})) << i;
  }

 private:
  Segment segment_;
  std::vector<Offers> offers_;
};

TEST(Offers, AllMeet) {
  for (const int count : {1, 2, 3, kMostOfferingRanks}) {
    Ranks ranks(count);
    for (uint64_t call = 0; call < 10; ++call) EXPECT_EQ(ranks.meet(call), count);
  }
}

TEST(Offers, OneRefusalIsEnough) {
  Ranks ranks(4);
  for (int refuser = 0; refuser < 4; ++refuser) {
    EXPECT_EQ(ranks.meet(0, refuser), 0);
    EXPECT_EQ(ranks.meet(0), 4);  // a refusal counts for its call alone
  }
}

TEST(Offers, WhoWaitsSeesALateOneCome) {
  Ranks ranks(2);
  ASSERT_TRUE(ranks[0].put(offer_of(0, 1)));
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_TRUE(ranks[1].put(offer_of(1, 1)));
    EXPECT_TRUE(ranks[1].all_put(kLong));
    EXPECT_TRUE(conclude(ranks[1], true, kNoLook));
  });
  EXPECT_TRUE(ranks[0].all_put(kLong));
  EXPECT_EQ(ranks[0].of(1), offer_of(1, 1));
  EXPECT_TRUE(conclude(ranks[0], true, kNoLook));
  late.join();
}

TEST(Offers, WhoClosesClosesForAll) {
  Ranks ranks(3);
  ASSERT_TRUE(ranks[0].put({}));
  ASSERT_TRUE(ranks[1].put({}));
  std::thread waiting([&] { EXPECT_FALSE(ranks[1].all_put(kLong)); });  // it waits for the timeout, and fails
  EXPECT_FALSE(ranks[0].all_put(milliseconds(5)));
  waiting.join();
  ASSERT_TRUE(ranks[2].put({}));
  EXPECT_FALSE(ranks[2].all_put(kLong));
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(ranks[rank].put({}));
  EXPECT_EQ(ranks.meet(7), 3);
}

TEST(Offers, TimeoutIsKept) {
  Ranks ranks(2);
  ASSERT_TRUE(ranks[0].put({}));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(ranks[0].all_put(milliseconds(30)));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(30));
}

// Two ranks fail to meet the third again and again, and then wait in one more meeting. Only then the third goes through
// all of them.
TEST(Offers, OneThatIsManyCallsLate) {
  for (const int meetings : {1, 2, 3, 4, 5, 9}) {
    Ranks ranks(3);
    EXPECT_EQ(ranks.meet(1), 3);
    const auto miss_all = [&](int rank) {
      for (int i = 0; i < meetings; ++i) ranks.miss(rank, std::min(1 << i, 64));
    };
    for (const int rank : {0, 1}) {
      miss_all(rank);
      ASSERT_TRUE(ranks[rank].put(offer_of(rank, 2)));
    }
    miss_all(2);
    ASSERT_TRUE(ranks[2].put(offer_of(2, 2)));
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(ranks[rank].all_put(kNoTimeout));
      for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(ranks[rank].of(peer), offer_of(peer, 2));
    }
  }
}

TEST(Offers, CallsAfterOneInVainAreNotTried) {
  Ranks ranks(2);
  for (int round = 0; round < 3; ++round) {
    for (const int skips : {1, 2, 4, 8, 16, 32, 64, 64, 64}) {
      for (const int rank : {round % 2, 1 - round % 2}) ranks.miss(rank, skips);
    }
    EXPECT_EQ(ranks.meet(1, round == 1 ? 0 : -1),
              round == 1 ? 0 : 2);  // a full meeting resets the count, even if one refuses
  }
}

TEST(Offers, ALookThatThrowsEndsTheWait) {
  Ranks ranks(2);
  for (const int rank : {0, 1}) ASSERT_TRUE(ranks[rank].put(offer_of(rank, 1)));
  ASSERT_TRUE(ranks[0].all_put(kNoTimeout));
  int looks = 0;
  const auto look = [&] {
    if (++looks == 3) throw std::runtime_error("enough");
  };
  EXPECT_THROW(conclude(ranks[0], true, look), std::runtime_error);
  EXPECT_EQ(looks, 3);
  for (int call = 0; call < 3; ++call) EXPECT_FALSE(ranks[0].put(offer_of(0, 2)));
  ASSERT_TRUE(ranks[1].all_put(kNoTimeout));
  EXPECT_EQ(ranks[1].of(0), offer_of(0, 1));
  EXPECT_TRUE(conclude(ranks[1], true, kNoLook));
  ranks.miss(1, 1);  // the other one comes no more
}

TEST(Offers, LooksComeOften) {
  Ranks ranks(2);
  for (const int rank : {0, 1}) ASSERT_TRUE(ranks[rank].put({}));
  ASSERT_TRUE(ranks[0].all_put(kNoTimeout));
  const auto begin = std::chrono::steady_clock::now();
  int looks = 0;
  const auto look = [&] {  // a machine that is busy with something else may take its time
    if (++looks == 20 || std::chrono::steady_clock::now() - begin > seconds(20)) throw std::runtime_error("enough");
  };
  EXPECT_THROW(conclude(ranks[0], true, look), std::runtime_error);
  EXPECT_EQ(looks, 20);
}

TEST(Offers, OutOfTurn) {
  const auto is_refused = [](const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.code() == ErrorCode::kInternal;
    }
    return false;
  };
  Ranks ranks(1);
  Offers& own = ranks[0];
  EXPECT_TRUE(is_refused([&] { own.all_put(kNoTimeout); }));
  EXPECT_TRUE(is_refused([&] { own.of(0); }));
  EXPECT_TRUE(is_refused([&] { own.answer(true); }));
  EXPECT_TRUE(is_refused([&] { own.all_can(kNoLook); }));
  ASSERT_TRUE(own.put({}));
  EXPECT_TRUE(is_refused([&] { own.put({}); }));
  EXPECT_TRUE(is_refused([&] { own.of(0); }));
  ASSERT_TRUE(own.all_put(kNoTimeout));
  EXPECT_TRUE(is_refused([&] { own.put({}); }));
  EXPECT_TRUE(is_refused([&] { own.all_put(kNoTimeout); }));
  EXPECT_TRUE(is_refused([&] { own.of(1); }));
  EXPECT_TRUE(is_refused([&] { own.of(-1); }));
  EXPECT_TRUE(conclude(own, true, kNoLook));
  EXPECT_TRUE(is_refused([&] { Offers(nullptr, 0, 2); }));
}

// The result of a call.
enum Outcome : uint8_t { kNotTried, kMissed, kRefused, kAgreed, kWrong };

bool can(int rank, uint64_t call, uint64_t seed) {
  test::Random random(seed ^ (call << 8) ^ static_cast<uint64_t>(rank));
  return !test::one_in(random, 10);
}

// One call of a rank, with random delays and timeouts.
Outcome random_call(Offers& own, int rank, int ranks, uint64_t call, uint64_t seed, test::Random& random) {
  if (test::one_in(random, 100)) std::this_thread::sleep_for(microseconds(test::between(random, 0, 2000)));
  if (!own.put(offer_of(rank, call))) return kNotTried;
  if (test::one_in(random, 50)) std::this_thread::sleep_for(microseconds(test::between(random, 0, 500)));
  const auto timeout = test::one_in(random, 20) ? microseconds(test::between(random, 0, 300)) : milliseconds(100);
  if (!own.all_put(timeout)) return kMissed;
  bool all_can = true, right = true;
  for (int i = 0; i < ranks; ++i) {
    const int peer = (rank + i) % ranks;
    right = right && own.of(peer) == offer_of(peer, call);
    all_can = all_can && can(peer, call, seed);
  }
  const bool agreed = conclude(own, can(rank, call, seed), kNoLook);
  if (!right || agreed != all_can) return kWrong;
  return agreed ? kAgreed : kRefused;
}

void make_calls(Offers own, int rank, int ranks, uint64_t seed, uint64_t calls, uint8_t* outcomes) noexcept {
  test::Random random(seed + static_cast<uint64_t>(rank));
  for (uint64_t call = 0; call < calls; ++call) outcomes[call] = random_call(own, rank, ranks, call, seed, random);
}

// `outcomes` has those of rank 0, then those of rank 1, ...
void expect_alike(const uint8_t* outcomes, int ranks, uint64_t calls) {
  std::vector<size_t> seen(5);
  for (uint64_t call = 0; call < calls; ++call) {
    ++seen[outcomes[call]];
    for (int rank = 1; rank < ranks; ++rank) {
      ASSERT_EQ(outcomes[static_cast<size_t>(rank) * calls + call], outcomes[call]) << "call " << call;
    }
  }
  EXPECT_EQ(seen[kWrong], 0u);
  for (const Outcome outcome : {kNotTried, kMissed, kRefused, kAgreed}) EXPECT_GT(seen[outcome], 0u) << outcome;
}

TEST(Offers, ThreadsWithRandomDelaysAndTimeout) {
  constexpr int kRanks = 4;
  constexpr uint64_t kCalls = 5000;
  const uint64_t seed = test::run_seed();
  const Segment segment({kRanks, 0, 0});
  std::vector<uint8_t> outcomes(kRanks * kCalls);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      make_calls({segment.offers(), rank, kRanks}, rank, kRanks, seed, kCalls, &outcomes[rank * kCalls]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_alike(outcomes.data(), kRanks, kCalls);
}

TEST(Offers, ProcessesWithRandomDelaysAndTimeout) {
  constexpr int kRanks = 3;
  constexpr uint64_t kCalls = 3000;
  const uint64_t seed = test::run_seed();
  const SegmentShape shape{kRanks, 0, 0};
  const UniqueFd file = Segment::create(shape, "");
  void* memory = ::mmap(nullptr, kRanks * kCalls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* outcomes = static_cast<uint8_t*>(memory);
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Segment segment(shape, file);  // each at an address of its own
      make_calls({segment.offers(), rank, kRanks}, rank, kRanks, seed, kCalls, outcomes + rank * kCalls);
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  expect_alike(outcomes, kRanks, kCalls);
  ::munmap(memory, kRanks * kCalls);
}

}  // namespace
}  // namespace plait
