// Every round of an agreement ends the same way for all ranks, whenever they come, and every proposal that is read
// belongs to the right call.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "runtime/agreement.hpp"
#include "runtime/host/segment.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kNoTimeout = seconds(0);
constexpr auto kLong = seconds(60);
const std::function<void()> kNoPoll = [] {};

// A proposal whose bytes all follow from the rank and the number of its call.
Proposal proposal_of(int rank, uint64_t call) {
  test::Random random(call * 256 + static_cast<uint64_t>(rank));
  Proposal proposal{static_cast<uint32_t>(call), true, {}};
  for (std::byte& byte : proposal.data) byte = static_cast<std::byte>(random());
  return proposal;
}

bool are_of(std::span<const Proposal> proposals, uint64_t call) {
  for (size_t rank = 0; rank < proposals.size(); ++rank) {
    const Proposal expected = proposal_of(static_cast<int>(rank), call);
    if (proposals[rank].call != expected.call || proposals[rank].data != expected.data) return false;
  }
  return true;
}

bool propose(Agreement& own, const Proposal& proposal) {
  const bool is_tried = own.begin(false);
  if (is_tried) own.propose(proposal);
  return is_tried;
}

bool vote(Agreement& own, std::chrono::nanoseconds timeout) {
  return own.vote(timeout, [](std::span<const Proposal>) { return true; });
}

// Also expects the proposals of all for this call.
bool vote_on(Agreement& own, uint64_t call, std::chrono::nanoseconds timeout, bool can = true) {
  return own.vote(timeout, [&](std::span<const Proposal> proposals) {
    EXPECT_TRUE(are_of(proposals, call));
    return can;
  });
}

bool commit(Agreement& own) { return own.commit(kNoPoll) == Agreement::Outcome::kAgreed; }

// All ranks, which the test moves one by one. Steps that must not wait get no timeout.
class Ranks {
 public:
  explicit Ranks(int ranks) : segment_({ranks, 0, 0}) {
    for (int rank = 0; rank < ranks; ++rank) ends_.emplace_back(segment_.agreement_memory(), rank, ranks);
  }

  Agreement& operator[](int rank) { return ends_[static_cast<size_t>(rank)]; }
  int count() const { return static_cast<int>(ends_.size()); }
  // Makes a call for which all are in time. Returns on how many ranks it was agreed on.
  int agree(uint64_t call, int refuser = -1) {
    for (int rank = 0; rank < count(); ++rank) EXPECT_TRUE(propose((*this)[rank], proposal_of(rank, call)));
    std::atomic<int> agreed{0};
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count(); ++rank) {
      threads.emplace_back([&, rank] {
        Agreement& own = (*this)[rank];
        ASSERT_TRUE(vote_on(own, call, kNoTimeout, rank != refuser));
        agreed += commit(own);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return agreed;
  }
  // A round of one rank that others miss, and the calls after it that are skipped.
  void miss(int rank, int skips) {
    ASSERT_TRUE(propose((*this)[rank], {}));
    EXPECT_FALSE(vote((*this)[rank], kNoTimeout));
    for (int i = 0; i < skips; ++i) ASSERT_FALSE(propose((*this)[rank], {})) << i;
  }

 private:
  Segment segment_;
  std::vector<Agreement> ends_;
};

TEST(AgreementRounds, AllAgree) {
  for (const int count : {1, 2, 3, kMostAgreeingRanks}) {
    Ranks ranks(count);
    for (uint64_t call = 0; call < 10; ++call) EXPECT_EQ(ranks.agree(call), count);
  }
}

TEST(AgreementRounds, OneRefusalIsEnough) {
  Ranks ranks(4);
  for (int refuser = 0; refuser < 4; ++refuser) {
    EXPECT_EQ(ranks.agree(0, refuser), 0);
    EXPECT_EQ(ranks.agree(0), 4);  // a refusal counts for its call alone
  }
}

TEST(AgreementRounds, OneThatWaitsSeesALateOneCome) {
  Ranks ranks(2);
  ASSERT_TRUE(propose(ranks[0], proposal_of(0, 1)));
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_TRUE(propose(ranks[1], proposal_of(1, 1)));
    EXPECT_TRUE(vote_on(ranks[1], 1, kLong));
    EXPECT_TRUE(commit(ranks[1]));
  });
  EXPECT_TRUE(vote_on(ranks[0], 1, kLong));
  EXPECT_TRUE(commit(ranks[0]));
  late.join();
}

TEST(AgreementRounds, OneThatClosesARoundClosesItForAll) {
  Ranks ranks(3);
  ASSERT_TRUE(propose(ranks[0], {}));
  ASSERT_TRUE(propose(ranks[1], {}));
  std::thread waiting([&] { EXPECT_FALSE(vote(ranks[1], kLong)); });  // it waits for the timeout, and fails
  EXPECT_FALSE(vote(ranks[0], milliseconds(5)));
  waiting.join();
  ASSERT_TRUE(propose(ranks[2], {}));
  EXPECT_FALSE(vote(ranks[2], kLong));
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(propose(ranks[rank], {}));
  EXPECT_EQ(ranks.agree(7), 3);
}

TEST(AgreementRounds, TimeoutIsKept) {
  Ranks ranks(2);
  ASSERT_TRUE(propose(ranks[0], {}));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(vote(ranks[0], milliseconds(30)));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(30));
}

// Two ranks miss the third in several rounds, and then wait in one more. Only then the third goes through all of them.
TEST(AgreementRounds, OneThatIsManyCallsLate) {
  for (const int rounds : {1, 2, 3, 4, 5, 9}) {
    Ranks ranks(3);
    EXPECT_EQ(ranks.agree(1), 3);
    const auto miss_all = [&](int rank) {
      for (int i = 0; i < rounds; ++i) ranks.miss(rank, std::min(1 << i, 64));
    };
    for (const int rank : {0, 1}) {
      miss_all(rank);
      ASSERT_TRUE(propose(ranks[rank], proposal_of(rank, 2)));
    }
    miss_all(2);
    ASSERT_TRUE(propose(ranks[2], proposal_of(2, 2)));
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(vote_on(ranks[rank], 2, kNoTimeout));
    }
  }
}

TEST(AgreementRounds, CallsAfterAMissedRoundAreNotTried) {
  Ranks ranks(2);
  for (int round = 0; round < 3; ++round) {
    for (const int skips : {1, 2, 4, 8, 16, 32, 64, 64, 64}) {
      for (const int rank : {round % 2, 1 - round % 2}) ranks.miss(rank, skips);
    }
    EXPECT_EQ(ranks.agree(1, round == 1 ? 0 : -1),
              round == 1 ? 0 : 2);  // a full round resets the count, even if one refuses
  }
}

TEST(AgreementRounds, APollThatThrowsEndsTheWait) {
  Ranks ranks(2);
  for (const int rank : {0, 1}) ASSERT_TRUE(propose(ranks[rank], proposal_of(rank, 1)));
  ASSERT_TRUE(vote(ranks[0], kNoTimeout));
  int polls = 0;
  const auto poll = [&] {
    if (++polls == 3) throw std::runtime_error("enough");
  };
  EXPECT_THROW(ranks[0].commit(poll), std::runtime_error);
  EXPECT_EQ(polls, 3);
  EXPECT_EQ(ranks[0].stage(), Agreement::Stage::kEnded);
  for (int call = 0; call < 3; ++call) EXPECT_FALSE(propose(ranks[0], proposal_of(0, 2)));
  ASSERT_TRUE(vote_on(ranks[1], 1, kNoTimeout));
  EXPECT_TRUE(commit(ranks[1]));
  ranks.miss(1, 1);  // the other one comes no more
}

TEST(AgreementRounds, PollsComeOften) {
  Ranks ranks(2);
  for (const int rank : {0, 1}) ASSERT_TRUE(propose(ranks[rank], {}));
  ASSERT_TRUE(vote(ranks[0], kNoTimeout));
  const auto begin = std::chrono::steady_clock::now();
  int polls = 0;
  const auto poll = [&] {  // a machine that is busy with something else may take its time
    if (++polls == 20 || std::chrono::steady_clock::now() - begin > seconds(20)) throw std::runtime_error("enough");
  };
  EXPECT_THROW(ranks[0].commit(poll), std::runtime_error);
  EXPECT_EQ(polls, 20);
}

TEST(AgreementRounds, StepsInAnotherOrderAreRefused) {
  const auto is_refused = [](const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.code() == ErrorCode::kInternal;
    }
    return false;
  };
  const auto kAnyCan = [](std::span<const Proposal>) { return true; };
  Ranks ranks(1);
  Agreement& own = ranks[0];
  const auto refuses_all_but = [&](Agreement::Stage stage) {
    EXPECT_EQ(own.stage(), stage);
    const bool may_begin = stage == Agreement::Stage::kIdle || stage == Agreement::Stage::kBegun;
    EXPECT_TRUE(may_begin || is_refused([&] { own.begin(false); }));
    EXPECT_TRUE(stage == Agreement::Stage::kBegun || is_refused([&] { own.propose({}); }));
    EXPECT_TRUE(stage == Agreement::Stage::kProposed || is_refused([&] { own.vote(kNoTimeout, kAnyCan); }));
    EXPECT_TRUE(stage == Agreement::Stage::kVoted || is_refused([&] { own.commit(kNoPoll); }));
  };
  refuses_all_but(Agreement::Stage::kIdle);
  ASSERT_TRUE(own.begin(false));
  refuses_all_but(Agreement::Stage::kBegun);
  ASSERT_TRUE(own.begin(false));  // the caller failed before it proposed
  own.propose({0, true, {}});
  refuses_all_but(Agreement::Stage::kProposed);
  ASSERT_TRUE(vote(own, kNoTimeout));
  refuses_all_but(Agreement::Stage::kVoted);
  EXPECT_TRUE(commit(own));
  refuses_all_but(Agreement::Stage::kIdle);
  EXPECT_TRUE(is_refused([&] { Agreement(nullptr, 0, 2); }));
}

// The result of a call.
enum Outcome : uint8_t { kNotTried, kMissed, kRefused, kAgreed, kWrong };

bool can(int rank, uint64_t call, uint64_t seed) {
  test::Random random(seed ^ (call << 8) ^ static_cast<uint64_t>(rank));
  return !test::one_in(random, 10);
}

// One call of a rank, with random delays and timeouts.
Outcome random_call(Agreement& own, int rank, int ranks, uint64_t call, uint64_t seed, test::Random& random) {
  if (test::one_in(random, 100)) std::this_thread::sleep_for(microseconds(test::between(random, 0, 2000)));
  if (!propose(own, proposal_of(rank, call))) return kNotTried;
  if (test::one_in(random, 50)) std::this_thread::sleep_for(microseconds(test::between(random, 0, 500)));
  const auto timeout = test::one_in(random, 20) ? microseconds(test::between(random, 0, 300)) : milliseconds(100);
  bool right = true;
  const auto own_vote = [&](std::span<const Proposal> proposals) {
    right = proposals.size() == static_cast<size_t>(ranks) && are_of(proposals, call);
    return can(rank, call, seed);
  };
  if (!own.vote(timeout, own_vote)) return kMissed;
  bool all_can = true;
  for (int peer = 0; peer < ranks; ++peer) all_can = all_can && can(peer, call, seed);
  const bool agreed = commit(own);
  if (!right || agreed != all_can) return kWrong;
  return agreed ? kAgreed : kRefused;
}

void make_calls(Agreement own, int rank, int ranks, uint64_t seed, uint64_t calls, uint8_t* outcomes) noexcept {
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

TEST(AgreementRounds, ThreadsWithRandomDelaysAndTimeout) {
  constexpr int kRanks = 4;
  constexpr uint64_t kCalls = 5000;
  const uint64_t seed = test::run_seed();
  const Segment segment({kRanks, 0, 0});
  std::vector<uint8_t> outcomes(kRanks * kCalls);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      make_calls({segment.agreement_memory(), rank, kRanks}, rank, kRanks, seed, kCalls, &outcomes[rank * kCalls]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_alike(outcomes.data(), kRanks, kCalls);
}

TEST(AgreementRounds, ProcessesWithRandomDelaysAndTimeout) {
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
      make_calls({segment.agreement_memory(), rank, kRanks}, rank, kRanks, seed, kCalls, outcomes + rank * kCalls);
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
