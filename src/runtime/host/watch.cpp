// Finds the reason of a long wait.
#include "runtime/host/watch.hpp"

#include <algorithm>

namespace plait {
namespace {

// Waits of this length also compare old calls.
constexpr double kLongWaitSeconds = 0.01;

}  // namespace

Watch::Watch(std::shared_ptr<Segment> segment, int rank, Peers peers, const WaitLimits& limits)
    : segment_(std::move(segment)),
      rank_(rank),
      ranks_(segment_->shape().ranks),
      peers_(std::move(peers)),
      limits_(limits),
      long_wait_(limits.notice_seconds) {}

void Watch::look(WaitClock& clock, Wait& wait) {
  throw_if_failed();
  if (!clock.is_running()) long_wait_.reset();
  if (!clock.look()) return;
  hear_interrupts(wait);
  wait.examine(clock.waited() > kLongWaitSeconds);
  if (!wait.is_wanted()) {
    clock.hold();
    return;
  }
  if (clock.waited() > limits_.timeout_seconds) {
    fail_all(ErrorCode::kTimeout, join("rank ", rank_, " waited more than ", limits_.timeout_seconds,
                                       " s (PLAIT_TIMEOUT_SEC) in ", account_of(wait)));
  }
  const std::optional<double> notice = long_wait_.notice(clock.waited());
  if (notice && limits_.log.shows(LogLevel::kWarn)) {
    limits_.log.warn("has waited ", *notice, " s in ", account_of(wait), "; fails after ", limits_.timeout_seconds,
                     " s (PLAIT_TIMEOUT_SEC)");
  }
}

void Watch::fail_all(ErrorCode code, const std::string& message) const {
  segment_->record_failure(code, rank_, message);
  throw_if_failed();
  fail(code, message);
}

void Watch::fail_without(int peer, const char* departure, const std::string& what) const {
  fail_all(ErrorCode::kPeerFailed, join(named(peer), ' ', departure, " while rank ", rank_, " was in ", what, "; rank ",
                                        peer, ' ', last_act(peer)));
}

std::string Watch::named(int peer) const { return join("rank ", peer, " (process ", peers_.process(peer), ")"); }

const char* Watch::departure(int peer) const {
  if (segment_->status(peer).state.load(std::memory_order_seq_cst) == RankState::kClosed)
    return "closed its communicator";
  return peers_.alive(peer) ? nullptr : "has died";
}

std::string Watch::account_of_departure(int peer) const {
  const char* const how = departure(peer);
  return how == nullptr ? "" : join(named(peer), ' ', how, "; of collectives, rank ", peer, ' ', last_act(peer));
}

void Watch::hear_interrupts() {
  constexpr double kSecondsBetween = 0.05;
  if (!interrupt_check_ || seconds_now() - interrupt_checked_ < kSecondsBetween) return;
  interrupt_checked_ = seconds_now();
  interrupt_check_();
}

void Watch::hear_interrupts(const Wait& wait) {
  try {
    hear_interrupts();
  } catch (...) {
    segment_->record_failure(ErrorCode::kPeerFailed, rank_, join("rank ", rank_, " was interrupted in ", wait.what()));
    throw;
  }
}

// Describes the wait and its place, and the ranks that it waits for with their last actions.
std::string Watch::account_of(const Wait& wait) const {
  const std::string where = wait.where();
  std::string text = join(wait.what(), where.empty() ? "" : ", at ", where);
  std::vector<int> culprits = wait.culprits();
  follow_waits(culprits);
  for (const int peer : culprits) {
    text += join("; rank ", peer, " (process ", peers_.process(peer), ", ", peers_.state(peer), ") ", last_act(peer));
  }
  return text;
}

// Adds the ranks that the culprits wait for themselves: for the other end of a message, or to enter their call.
void Watch::follow_waits(std::vector<int>& culprits) const {
  const auto add = [&](int peer) {
    if (peer != rank_ && std::find(culprits.begin(), culprits.end(), peer) == culprits.end()) culprits.push_back(peer);
  };
  for (size_t i = 0; i < culprits.size(); ++i) {
    const RankStatus& status = segment_->status(culprits[i]);
    const int64_t waiting = status.waiting.load(std::memory_order_relaxed);
    NumberedMessage awaited;
    if (waiting == kWaitingForMessage && look_up(status.exchanges, awaited)) add(awaited.message.peer);
    if (waiting < 0) continue;
    const uint64_t call = status.calls.entered.load(std::memory_order_acquire);
    for (int peer = 0; peer < ranks_; ++peer) {
      if (segment_->status(peer).calls.entered.load(std::memory_order_acquire) < call) add(peer);
    }
  }
}

std::string Watch::last_act(int peer) const {
  if (is_elsewhere(peer)) return "makes its calls where this host does not see them";
  const RankStatus& status = segment_->status(peer);
  const uint64_t entered = status.calls.entered.load(std::memory_order_acquire);
  const uint64_t completed = status.completed_call.load(std::memory_order_acquire);
  if (status.exchanges.entered.load(std::memory_order_acquire) > 0 &&
      status.exchanges.after_call.load(std::memory_order_relaxed) >= entered) {
    return last_exchange(peer);
  }
  if (entered == 0) return "never made a call";
  Call call;
  const std::string text = look_up(status.calls, entered, call) ? join(", ", to_text(call)) : "";
  if (completed >= entered) return join("last completed call ", entered, text, ", and has called nothing since");
  const int64_t waiting = status.waiting.load(std::memory_order_relaxed);
  return join("entered call ", entered, text,
              waiting >= 0 ? join(" and waits there (queue ", waiting >> 32, ", operation ", waiting & 0xffffffff, ")")
              : waiting == kWaitingForScratch
                  ? std::string(" and waits there for others to be done with an earlier call")
              : waiting == kWaitingForTrain ? std::string(" and waits there for messages that measure the network")
                                            : std::string(" and has not finished it"));
}

std::string Watch::last_exchange(int peer) const {
  const RankStatus& status = segment_->status(peer);
  const P2pLog& log = status.exchanges;
  NumberedMessage message;
  const std::string text = look_up(log, message) ? to_text(message, peer) : "message";
  if (log.completed.load(std::memory_order_acquire) >= log.entered.load(std::memory_order_acquire)) {
    return join("last completed a ", text, ", and has called nothing since");
  }
  const bool waits = status.waiting.load(std::memory_order_relaxed) == kWaitingForMessage;
  return join(waits ? "waits in a " : "is in a ", text);
}

}  // namespace plait
