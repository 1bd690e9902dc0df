// Checks on the peers of a rank that makes calls on GPUs.
#include "runtime/host/device_calls.hpp"

#include <algorithm>
#include <set>

#include "runtime/host/call_difference.hpp"

namespace plait {

DeviceCalls::DeviceCalls(std::shared_ptr<Segment> segment, int rank, Peers peers)
    : segment_(std::move(segment)), rank_(rank), peers_(std::move(peers)) {}

ProcessSharing DeviceCalls::process_sharing() const {
  std::set<int> seen;
  bool is_shared = false;
  for (int rank = 0; rank < ranks(); ++rank) {
    const int pid = peers_.pid(rank);  // 0: unknown, but not this process
    is_shared = !seen.insert(pid > 0 ? pid : -1 - rank).second || is_shared;
  }
  if (!is_shared) return ProcessSharing::kNone;
  return seen.size() == 1 ? ProcessSharing::kAll : ProcessSharing::kSome;
}

void DeviceCalls::announce(const Call& call) {
  CallLog& log = segment_->status(rank_).device_calls;
  publish(log, log.entered.load(std::memory_order_relaxed) + 1, call);
}

void DeviceCalls::compare_calls() {
  const CallLog& own = segment_->status(rank_).device_calls;
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank_ || !differ(own, segment_->status(peer).device_calls) || has_failed()) continue;
    abort(ErrorCode::kMismatch, describe_difference(*segment_, &RankStatus::device_calls, rank_, peer));
  }
}

void DeviceCalls::look_after_peers() {
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank_) continue;
    const RankStatus& status = segment_->status(peer);
    if (status.state.load(std::memory_order_acquire) == RankState::kClosed) {
      // The peer finished its calls before it closed. A rank that has made more calls waits in vain.
      const uint64_t theirs = status.device_calls.entered.load(std::memory_order_acquire);
      const uint64_t ours = segment_->status(rank_).device_calls.entered.load(std::memory_order_acquire);
      if (theirs >= ours) continue;
      abort(ErrorCode::kPeerFailed,
            join("rank ", peer, " (process ", peers_.process(peer), ") has closed its communicator ", "after ", theirs,
                 theirs == 1 ? " call" : " calls", ", but ", last_act(rank_)));
    }
    if (peers_.alive(peer)) continue;
    abort(ErrorCode::kPeerFailed, join("rank ", peer, " (process ", peers_.process(peer), ") has died; ", describe()));
  }
}

std::optional<uint64_t> DeviceCalls::awaited_call() const {
  const auto made_by = [&](int rank) {
    return segment_->status(rank).device_calls.entered.load(std::memory_order_acquire);
  };
  const uint64_t own = made_by(rank_);
  uint64_t least = own;
  for (int peer = 0; peer < ranks(); ++peer) least = std::min(least, made_by(peer));
  return least < own ? std::optional(least + 1) : std::nullopt;
}

std::string DeviceCalls::last_act(int rank) const {
  const CallLog& log = segment_->status(rank).device_calls;
  const std::string who = join("rank ", rank, " (process ", peers_.process(rank), ", ", peers_.state(rank), ")");
  if (log.entered.load(std::memory_order_acquire) == 0) return who + " has made no call";
  return join(who, " last made ", last_call(log));
}

std::string DeviceCalls::describe() const {
  std::string text = last_act(rank_);
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank_) continue;
    if (const auto difference = first_difference(*segment_, &RankStatus::device_calls, rank_, peer)) return *difference;
    text += "; " + last_act(peer);
  }
  return text;
}

}  // namespace plait
