// Meetings about offers, in shared memory without locks.
//
// Each rank counts its meetings. The rules below hold for every meeting m, given that they hold for all meetings before
// it:
//
// - One word tells how many ranks have come to the latest meeting that any rank has come to, and whether that meeting
//   was closed. It changes by compare-and-swap alone, and a meeting is closed only while some ranks are missing. So a
//   meeting that is over was either full or closed, never both, and every rank sees it end the same way. Full means
//   that all ranks came in time. A rank that finds the word at a later meeting knows that its own meeting was closed: a
//   rank goes on to the next meeting only after a closed one, or after all_can(), which waits for the votes of all
//   ranks, and so for that rank's own vote. This also covers a rank that is several meetings late: it came to none of
//   them, so all were closed.
// - Votes are cast in full meetings only. The next full meeting needs every rank to come, and a rank comes after it has
//   seen all votes of the last full one. So no rank waits for the votes of one meeting when the word already holds
//   votes of a later one.
// - A rank writes its row before it comes to a meeting. If the meeting is full, the others read the row in that
//   meeting, before they vote. The rank writes its row again for a later meeting. If the last meeting was full, it has
//   seen the votes of all by then; if it was not, nobody has read the row. A late rank writes its row while others are
//   ahead in a later meeting; they do not read it, since that meeting is not full without this rank. So one table
//   serves all meetings, and no rank needs to ask before it writes.
//
// Memory order: the bytes of a row are plain. A rank releases when it comes or votes, and acquires when it sees all
// come or all votes. Each swap of a word continues the release sequence of the swaps before it, so the last one stands
// for all.
#include "runtime/offers.hpp"

#include <algorithm>
#include <atomic>

#include "base/error.hpp"

namespace plait {

// The rows of the ranks follow this struct.
struct OfferTable {
  alignas(64) std::atomic<uint64_t> arrivals;
  alignas(64) std::atomic<uint64_t> votes;
};

namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared memory needs lock-free atomics");

constexpr int kMostSkips = 64;

// A word has the meeting's number in the upper 48 bits, enough for centuries of one meeting every 50 us.
constexpr int kNumberShift = 16;
constexpr uint64_t meeting_of(uint64_t word) { return word >> kNumberShift; }

// A word of arrivals has a bit that says "closed", and a count.
constexpr uint64_t kClosed = uint64_t{1} << 15;
constexpr uint64_t arrived(uint64_t word) { return word & (kClosed - 1); }

// A word of votes has a count of refusals, and a count of all votes.
constexpr uint64_t kRefusal = uint64_t{1} << 8;
constexpr uint64_t votes_in(uint64_t word) { return word & (kRefusal - 1); }
constexpr bool is_refused(uint64_t word) { return (word >> 8 & 0xff) != 0; }
constexpr int kMostVotes = 0xff;
static_assert(kMostOfferingRanks <= kMostVotes);

bool swap(std::atomic<uint64_t>& word, uint64_t& seen, uint64_t next) {
  return word.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire);
}

}  // namespace

size_t Offers::bytes_for(int ranks) { return sizeof(OfferTable) + static_cast<size_t>(ranks) * kOfferBytes; }

Offers::Offers(std::byte* memory, int rank, int ranks, Backoff backoff)
    : table_(reinterpret_cast<OfferTable*>(memory)),
      rank_(rank),
      ranks_(static_cast<uint64_t>(ranks)),
      backoff_(backoff) {
  if (memory == nullptr || ranks < 1 || ranks > kMostVotes || rank < 0 || rank >= ranks) {
    fail(ErrorCode::kInternal, "no offers of rank ", rank, " of ", ranks, memory == nullptr ? " without memory" : "");
  }
}

void Offers::expect(Stage stage, const char* what) const {
  if (stage_ == stage) return;
  fail(ErrorCode::kInternal, "rank ", rank_, ": offers of meeting ", meeting_, ": ", what, " in the wrong order");
}

// Rows are assigned, not copied by memcpy: gcc may expand that where the thread sanitizer does not see it.
Offer& Offers::row(int rank) const { return reinterpret_cast<Offer*>(table_ + 1)[rank]; }

bool Offers::put(const Offer& offer) {
  if (stage_ == Stage::kGone) return false;
  expect(Stage::kApart, "put()");
  if (skips_ > 0) {
    --skips_;
    return false;
  }
  ++meeting_;
  row(rank_) = offer;
  join();
  stage_ = Stage::kPut;
  return true;
}

void Offers::join() {
  uint64_t seen = table_->arrivals.load(std::memory_order_acquire);
  for (;;) {
    if (meeting_of(seen) > meeting_) return;  // too late; wait_for_all() will notice
    const bool is_first = meeting_of(seen) < meeting_;
    if (swap(table_->arrivals, seen, is_first ? (meeting_ << kNumberShift | 1) : seen + 1)) return;
  }
}

bool Offers::all_put(std::chrono::nanoseconds timeout) {
  expect(Stage::kPut, "all_put()");
  if (wait_for_all(timeout)) {
    stage_ = Stage::kMet;
    return true;
  }
  end(true);
  return false;
}

void Offers::end(bool in_vain) {
  stage_ = Stage::kApart;
  skips_ = in_vain ? next_skips_ : 0;
  next_skips_ = in_vain ? std::min(2 * next_skips_, kMostSkips) : 1;
}

bool Offers::wait_for_all(std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  backoff_.reset();
  uint64_t seen = table_->arrivals.load(std::memory_order_acquire);
  for (;;) {
    if (meeting_of(seen) != meeting_ || (seen & kClosed) != 0) return false;
    if (arrived(seen) == ranks_) return true;
    if (Clock::now() - begin >= timeout) {
      // A rank that comes at this moment makes the swap fail, and the loop sees it.
      if (swap(table_->arrivals, seen, seen | kClosed)) return false;
      continue;
    }
    backoff_.pause();
    seen = table_->arrivals.load(std::memory_order_acquire);
  }
}

Offer Offers::of(int rank) const {
  expect(Stage::kMet, "of()");
  if (rank < 0 || static_cast<uint64_t>(rank) >= ranks_) {
    fail(ErrorCode::kInternal, "rank ", rank_, ": no offer of rank ", rank, " of ", ranks_);
  }
  return row(rank);
}

void Offers::answer(bool can) {
  expect(Stage::kMet, "answer()");
  stage_ = Stage::kAnswered;
  const uint64_t own = can ? 1 : kRefusal + 1;
  uint64_t seen = table_->votes.load(std::memory_order_acquire);
  while (!swap(table_->votes, seen, (meeting_of(seen) == meeting_ ? seen : meeting_ << kNumberShift) + own)) {
  }
}

bool Offers::all_can(const std::function<void()>& look) {
  expect(Stage::kAnswered, "all_can()");
  // Others may read this rank's row until all votes are in. If `look` throws before that, this rank never writes its
  // row again.
  stage_ = Stage::kGone;
  backoff_.reset();
  uint64_t seen = table_->votes.load(std::memory_order_acquire);
  while (meeting_of(seen) != meeting_ || votes_in(seen) != ranks_) {
    if (backoff_.pause()) look();
    seen = table_->votes.load(std::memory_order_acquire);
  }
  end(false);
  return !is_refused(seen);
}

}  // namespace plait
