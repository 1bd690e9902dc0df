// Compares the calls of all ranks when this one leaves.
#include "runtime/host/last_look.hpp"

#include <atomic>

#include "base/error.hpp"

namespace plait {

LastLook::LastLook(const Segment& segment, int rank, const Watch& watch)
    : segment_(segment), rank_(rank), watch_(watch) {}

bool LastLook::is_over() {
  const bool has_failed = segment_.failure().is_set();
  if (has_failed && !is_news_of_mismatch()) return true;
  bool over = true;
  for (int peer = 0; peer < segment_.shape().ranks; ++peer) {
    if (peer == rank_ || watch_.is_elsewhere(peer)) continue;
    for (const LogOfStatus log : {&RankStatus::calls, &RankStatus::device_calls}) over = is_over(peer, log) && over;
  }
  return over || has_failed;
}

// If ranks differ, this one may not have heard of it yet. Other failures concern calls that others make later.
bool LastLook::is_news_of_mismatch() const {
  return !segment_.status(rank_).knows_failure.load(std::memory_order_relaxed) &&
         failure_in(segment_.failure(), rank_)->code() == ErrorCode::kMismatch;
}

bool LastLook::is_over(int peer, LogOfStatus log) const {
  const char* const departure = watch_.departure(peer);  // read first: a rank that has departed makes no more calls
  const bool has_closed = segment_.status(peer).state.load(std::memory_order_seq_cst) == RankState::kClosed;
  const CallLog& own = segment_.status(rank_).*log;
  const CallLog& other = segment_.status(peer).*log;
  const auto fail = [&](ErrorCode code, const auto&... what) {
    watch_.fail_all(code, join(watch_.named(peer), ' ', departure, ' ', what..., "; ", kSameCalls));
  };
  const uint64_t ours = own.entered.load(std::memory_order_acquire);
  const uint64_t theirs = other.entered.load(std::memory_order_acquire);
  // Compare after reading the counts: a call that came in between would be counted but not compared.
  if (differ(own, other)) watch_.fail_all(ErrorCode::kMismatch, describe_difference(segment_, log, rank_, peer));
  if (ours == theirs || (ours < theirs && !has_closed)) return true;
  if (departure == nullptr) return false;
  if (ours < theirs) {
    fail(ErrorCode::kMismatch, "after ", last_call(other), ", and rank ", rank_, " closes its own after ", ours,
         ours == 1 ? " call" : " calls");
  }
  fail(has_closed ? ErrorCode::kMismatch : ErrorCode::kPeerFailed, "after ", theirs, theirs == 1 ? " call" : " calls",
       ", and rank ", rank_, " has made ", last_call(own));
  return true;
}

}  // namespace plait
