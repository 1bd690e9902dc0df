// Ranks agree on a call only if all are in that same call, whichever of them capture it.
#include "runtime/agreement.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "runtime/host/segment.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using std::chrono::microseconds;
using Outcome = Agreement::Outcome;

constexpr std::chrono::nanoseconds kLong = std::chrono::seconds(60);
constexpr std::chrono::nanoseconds kNoTimeout{0};
const auto kAllCan = [](std::span<const Proposal>) { return true; };
const auto kNoPoll = [] {};

Proposal willing(uint32_t call) { return {call, true, {}}; }

// None: not tried, or some rank came too late.
using Result = std::optional<Outcome>;

// The steps of a call after begin(), one after the other.
Result agree(Agreement& end, const Proposal& ours, std::chrono::nanoseconds timeout,
             const std::function<bool(std::span<const Proposal>)>& can) {
  end.propose(ours);
  if (!end.vote(timeout, can)) return std::nullopt;
  return end.commit(kNoPoll);
}

// Ranks as threads, each with its side of the agreement.
class Ranks {
 public:
  explicit Ranks(int ranks) : segment_({ranks, 0, 0}) {
    for (int rank = 0; rank < ranks; ++rank) ends_.emplace_back(segment_.agreement_memory(), rank, ranks);
  }

  Agreement& operator[](int rank) { return ends_[static_cast<size_t>(rank)]; }
  // Runs all at once, and returns the result of each.
  std::vector<Result> run(const std::function<Result(int rank, Agreement&)>& part) {
    std::vector<Result> outcomes(ends_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ends_.size(); ++rank) {
      threads.emplace_back([&, rank] { outcomes[rank] = part(static_cast<int>(rank), ends_[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }
  // A call that all make and come to.
  std::vector<Result> meet(
      bool captured, const std::function<Proposal(int rank)>& propose,
      const std::function<bool(int rank)>& can = [](int) { return true; }) {
    return run([&](int rank, Agreement& end) {
      if (!end.begin(captured)) return Result();
      return agree(end, propose(rank), kLong, [&](std::span<const Proposal>) { return can(rank); });
    });
  }

 private:
  Segment segment_;
  std::vector<Agreement> ends_;
};

std::vector<Result> all(size_t ranks, Result result) { return std::vector<Result>(ranks, result); }

TEST(Agreement, AgreeWhereAllAreWillingAndCan) {
  Ranks ranks(3);
  std::set<uint64_t> numbers;
  for (const bool captured : {false, true, false, true, true}) {
    EXPECT_EQ(ranks.meet(captured, [](int) { return willing(7); }), all(3, Outcome::kAgreed));
    EXPECT_TRUE(numbers.insert(ranks[0].number()).second);
    for (const int rank : {1, 2}) EXPECT_EQ(ranks[rank].number(), ranks[0].number());
  }
}

TEST(Agreement, VotersReadWhatOthersPropose) {
  Ranks ranks(3);
  const auto outcomes = ranks.run([](int rank, Agreement& end) {
    Proposal ours = willing(1);
    ours.data[223] = static_cast<std::byte>(rank + 10);
    end.begin(false);
    return agree(end, ours, kLong, [](std::span<const Proposal> theirs) {
      for (size_t r = 0; r < theirs.size(); ++r) {
        if (theirs[r].data[223] != static_cast<std::byte>(r + 10)) return false;
      }
      return theirs.size() == 3;
    });
  });
  EXPECT_EQ(outcomes, all(3, Outcome::kAgreed));
}

TEST(Agreement, OneThatIsNotWillingOrCannotOrMakesAnotherCallIsEnough) {
  Ranks ranks(3);
  const auto proposal = [](int) { return willing(7); };
  EXPECT_EQ(ranks.meet(false, [](int rank) { return Proposal{7, rank != 1, {}}; }), all(3, Outcome::kRefused));
  EXPECT_EQ(ranks.meet(true, proposal, [](int rank) { return rank != 2; }), all(3, Outcome::kRefused));
  EXPECT_EQ(ranks.meet(false, [](int rank) { return willing(rank == 0 ? 8 : 7); }), all(3, Outcome::kRefused));
  EXPECT_EQ(ranks.meet(false, proposal), all(3, Outcome::kAgreed));
}

// After failed agreements later calls are skipped, but captured calls are not.
TEST(Agreement, CapturedCallsAreTriedWhateverBecameOfOthers) {
  Ranks ranks(2);
  int not_tried = 0;
  for (int call = 0; call < 20; ++call) {
    for (const int rank : {0, 1}) {
      if (ranks[rank].begin(false)) {
        ASSERT_EQ(agree(ranks[rank], willing(1), kNoTimeout, kAllCan), std::nullopt);
      } else {
        ++not_tried;
      }
    }
  }
  EXPECT_GT(not_tried, 20);
  EXPECT_EQ(ranks.meet(true, [](int) { return willing(1); }), all(2, Outcome::kAgreed));
}

// Rank 0 captures what rank 1 makes at once. Then both capture calls that look the same.
TEST(Agreement, WhoCapturesWhatAnotherMakesAtOnceIsFound) {
  Ranks ranks(2);
  const auto outcomes = ranks.run([](int rank, Agreement& end) {
    for (int call = 0; call < 4; ++call) {
      const bool captured = rank == 0 || call > 0;
      if (!end.begin(captured)) continue;
      const Result result = agree(end, willing(1), captured ? kLong : kNoTimeout, kAllCan);
      EXPECT_NE(result, Outcome::kAgreed) << "rank " << rank << ", call " << call;
      if (result == Outcome::kOutOfStep) {
        EXPECT_FALSE(end.begin(true)) << "rank " << rank;
        return result;
      }
    }
    return Result();
  });
  EXPECT_EQ(outcomes, all(2, Outcome::kOutOfStep));
}

// A ring of ranks, each of which is in two agreements at once: one with the rank before it and one with the next.
TEST(Agreement, SeveralAtOnceDoNotWaitForEachOther) {
  constexpr int kRanks = 4, kCalls = 50;
  const Segment segment({kRanks, 0, 0});
  std::vector<std::thread> threads;
  std::vector<int> agreed(kRanks, 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const int next = (rank + 1) % kRanks, before = (rank + kRanks - 1) % kRanks;
      Agreement with[] = {{segment.message_agreement_memory(rank, next), 0, 2},
                          {segment.message_agreement_memory(before, rank), 1, 2}};
      const auto first = static_cast<size_t>(rank % 2);  // in either order
      for (int call = 0; call < kCalls; ++call) {
        const bool captured = call % 3 == 0;
        for (const size_t m : {first, 1 - first}) {
          ASSERT_TRUE(with[m].begin(captured));
          with[m].propose(willing(static_cast<uint32_t>(call)));
        }
        for (const size_t m : {first, 1 - first}) ASSERT_TRUE(with[m].vote(kLong, kAllCan));
        for (const size_t m : {first, 1 - first}) {
          agreed[static_cast<size_t>(rank)] += with[m].commit(kNoPoll) == Outcome::kAgreed ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(agreed, std::vector<int>(kRanks, 2 * kCalls));
}

// Ranks with random delays and timeouts. Now and then one of them captures what others do not.
TEST(Agreement, NobodyAgreesOnDifferentCalls) {
  constexpr int kRanks = 3, kCalls = 60;
  int agreed = 0, worlds_with_odd_ones = 0;
  test::Random random(test::run_seed());
  for (int world = 0; world < 40; ++world) {
    const uint64_t seed = random();
    const bool has_odd_ones = world % 2 == 1;
    worlds_with_odd_ones += has_odd_ones ? 1 : 0;
    Ranks ranks(kRanks);
    std::vector<std::map<uint64_t, int>> calls(kRanks);  // by agreement
    ranks.run([&](int rank, Agreement& end) {
      test::Random common(seed), own(seed + static_cast<uint64_t>(rank) + 1);
      for (int call = 0; call < kCalls; ++call) {
        bool captured = test::between(common, 0, 1) == 0;
        if (has_odd_ones && test::between(own, 0, 30) == 0) captured = !captured;
        if (test::between(own, 0, 9) == 0) std::this_thread::sleep_for(microseconds(test::between(own, 0, 400)));
        if (!end.begin(captured)) continue;
        const auto timeout = captured ? microseconds(3000) : microseconds(test::between(own, 0, 300));
        if (agree(end, willing(1), timeout, kAllCan) == Outcome::kAgreed) {
          calls[static_cast<size_t>(rank)].emplace(end.number(), call);
        }
      }
      return Result();
    });
    for (const auto& of_rank : calls) EXPECT_EQ(of_rank, calls[0]) << "seed " << seed;
    agreed += static_cast<int>(calls[0].size());
  }
  EXPECT_GT(agreed, 0);
  EXPECT_EQ(worlds_with_odd_ones, 20);
}

}  // namespace
}  // namespace plait
