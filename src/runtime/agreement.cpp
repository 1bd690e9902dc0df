// Rounds of agreements, in shared memory without locks.
//
// Each rank counts its rounds. The rules below hold for every round r, given that they hold for all rounds before it:
//
// - One word tells how many ranks have come to the latest round that any rank has come to, and whether that round was
//   closed. It changes by compare-and-swap alone, and a round is closed only while some ranks are missing. So a round
//   that is over was either full or closed, never both, and every rank sees it end the same way. Full means that all
//   ranks came in time. A rank that finds the word at a later round knows that its own round was closed: a rank goes on
//   to the next round only after a closed one, or after commit(), which waits for the votes of all ranks, and so for
//   that rank's own vote. This also covers a rank that is several rounds late: it came to none of them, so all were
//   closed.
// - Votes are cast in full rounds only. The next full round needs every rank to come, and a rank comes after it has
//   seen all votes of the last full one. So no rank waits for the votes of one round when the word already holds votes
//   of a later one.
// - A rank writes its row before it comes to a round. If the round is full, the others read the row in that round,
//   before they vote. The rank writes its row again for a later round. If the last round was full, it has seen the
//   votes of all by then; if it was not, nobody has read the row. A late rank writes its row while others are ahead in
//   a later round; they do not read it, since that round is not full without this rank. So one table serves all rounds,
//   and no rank needs to ask before it writes.
//
// Memory order: the bytes of a row are plain. A rank releases when it comes or votes, and acquires when it sees all
// come or all votes. Each swap of a word continues the release sequence of the swaps before it, so the last one stands
// for all.
#include "runtime/agreement.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "base/error.hpp"

namespace plait {

// The rows of the ranks follow this struct.
struct AgreementTable {
  alignas(64) std::atomic<uint64_t> arrivals;
  alignas(64) std::atomic<uint64_t> votes;
};

struct alignas(64) ProposalRow {
  Agreement::CallCounts before;
  Proposal proposal;
};

namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared memory needs lock-free atomics");
static_assert(std::is_trivially_copyable_v<ProposalRow>);

constexpr int kMostSkips = 64;

// A word has the round's number in the upper 48 bits, enough for centuries of one round every 50 us.
constexpr int kNumberShift = 16;
constexpr uint64_t round_of(uint64_t word) { return word >> kNumberShift; }

// A word of arrivals has a bit that says "closed", and a count.
constexpr uint64_t kClosed = uint64_t{1} << 15;
constexpr uint64_t arrived(uint64_t word) { return word & (kClosed - 1); }

// A word of votes has a count of refusals, and a count of all votes.
constexpr uint64_t kRefusal = uint64_t{1} << 8;
constexpr uint64_t votes_in(uint64_t word) { return word & (kRefusal - 1); }
constexpr bool is_refused(uint64_t word) { return (word >> 8 & 0xff) != 0; }
constexpr int kMostVotes = 0xff;
static_assert(kMostAgreeingRanks <= kMostVotes);

size_t table_bytes(int ranks) { return sizeof(AgreementTable) + static_cast<size_t>(ranks) * sizeof(ProposalRow); }

AgreementTable* table_at(std::byte* memory) { return reinterpret_cast<AgreementTable*>(memory); }

bool swap(std::atomic<uint64_t>& word, uint64_t& seen, uint64_t next) {
  return word.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire);
}

}  // namespace

size_t Agreement::bytes_for(int ranks) { return 2 * table_bytes(ranks); }

Agreement::Agreement(std::byte* memory, int rank, int ranks, Backoff backoff)
    : rank_(rank), ranks_(static_cast<uint64_t>(ranks)), backoff_(backoff) {
  if (memory == nullptr || ranks < 1 || ranks > kMostVotes || rank < 0 || rank >= ranks) {
    fail(ErrorCode::kInternal, "no agreement of rank ", rank, " of ", ranks,
         memory == nullptr ? " without memory" : "");
  }
  rounds_[0].table = table_at(memory);
  rounds_[1].table = table_at(memory + table_bytes(ranks));
}

void Agreement::expect(Stage stage, const char* step) {
  if (stage_ == stage) return;
  fail(ErrorCode::kInternal, "rank ", rank_, ": agreement on call ", before_.all, ": ", step, " in the wrong order");
}

ProposalRow& Agreement::row(int rank) { return reinterpret_cast<ProposalRow*>(rounds().table + 1)[rank]; }

bool Agreement::begin(bool captured) {
  if (stage_ == Stage::kEnded) return false;
  if (stage_ != Stage::kBegun) expect(Stage::kIdle, "begin()");  // the caller may have failed before it proposed
  stage_ = Stage::kIdle;
  captured_ = captured;
  before_ = next_;
  ++next_.all;
  if (captured) ++next_.captured;
  if (!in_step_) return false;
  if (rounds().skips > 0) {
    --rounds().skips;
    return false;
  }
  stage_ = Stage::kBegun;
  return true;
}

// Rows are assigned, not copied by memcpy: gcc may expand that where the thread sanitizer does not see it.
void Agreement::propose(const Proposal& ours) {
  expect(Stage::kBegun, "propose()");
  ++rounds().last;
  row(rank_) = {before_, ours};
  join_round();
  stage_ = Stage::kProposed;
}

void Agreement::join_round() {
  AgreementTable* const table = rounds().table;
  const uint64_t own = rounds().last;
  uint64_t seen = table->arrivals.load(std::memory_order_acquire);
  for (;;) {
    if (round_of(seen) > own) return;  // too late; wait_for_proposals() will notice
    const bool is_first = round_of(seen) < own;
    if (swap(table->arrivals, seen, is_first ? (own << kNumberShift | 1) : seen + 1)) return;
  }
}

// Every rank compares the proposals of all ranks, so all come to the same result. Only `can` depends on one rank. A
// rank always votes, because the others wait for its vote.
bool Agreement::vote(std::chrono::nanoseconds timeout, const std::function<bool(std::span<const Proposal>)>& can) {
  expect(Stage::kProposed, "vote()");
  if (!wait_for_proposals(timeout)) {
    end_round(false);
    return false;
  }
  std::vector<Proposal> proposals;
  bool all_willing = true;
  const uint32_t own_call = row(rank_).proposal.call;
  for (int rank = 0; static_cast<uint64_t>(rank) < ranks_; ++rank) {
    const ProposalRow theirs = row(rank);
    in_step_ = in_step_ && theirs.before == before_;
    all_willing = all_willing && theirs.proposal.willing && theirs.proposal.call == own_call;
    proposals.push_back(theirs.proposal);
  }
  cast_vote(in_step_ && all_willing && can(proposals));
  stage_ = Stage::kVoted;
  return true;
}

void Agreement::end_round(bool was_full) {
  stage_ = Stage::kIdle;
  int& next_skips = rounds().next_skips;
  rounds().skips = was_full ? 0 : next_skips;
  next_skips = was_full ? 1 : std::min(2 * next_skips, kMostSkips);
}

bool Agreement::wait_for_proposals(std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  AgreementTable* const table = rounds().table;
  const uint64_t own = rounds().last;
  const Clock::time_point begin = Clock::now();
  backoff_.reset();
  uint64_t seen = table->arrivals.load(std::memory_order_acquire);
  for (;;) {
    if (round_of(seen) != own || (seen & kClosed) != 0) return false;
    if (arrived(seen) == ranks_) return true;
    if (Clock::now() - begin >= timeout) {
      // A rank that comes at this moment makes the swap fail, and the loop sees it.
      if (swap(table->arrivals, seen, seen | kClosed)) return false;
      continue;
    }
    backoff_.pause();
    seen = table->arrivals.load(std::memory_order_acquire);
  }
}

void Agreement::cast_vote(bool can) {
  AgreementTable* const table = rounds().table;
  const uint64_t own = rounds().last;
  const uint64_t vote = can ? 1 : kRefusal + 1;
  uint64_t seen = table->votes.load(std::memory_order_acquire);
  while (!swap(table->votes, seen, (round_of(seen) == own ? seen : own << kNumberShift) + vote)) {
  }
}

Agreement::Outcome Agreement::commit(const std::function<void()>& poll) {
  expect(Stage::kVoted, "commit()");
  // Others may read this rank's row until all votes are in. If `poll` throws before that, this rank never writes its
  // row again.
  stage_ = Stage::kEnded;
  backoff_.reset();
  AgreementTable* const table = rounds().table;
  const uint64_t own = rounds().last;
  uint64_t seen = table->votes.load(std::memory_order_acquire);
  while (round_of(seen) != own || votes_in(seen) != ranks_) {
    if (backoff_.pause()) poll();
    seen = table->votes.load(std::memory_order_acquire);
  }
  end_round(true);
  if (is_refused(seen)) return in_step_ ? Outcome::kRefused : Outcome::kOutOfStep;
  number_ = 2 * own + (captured_ ? 1 : 0);
  return Outcome::kAgreed;
}

}  // namespace plait
