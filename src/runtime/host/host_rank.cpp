// Performing plans on the host, and the search for the culprit.
#include "runtime/host/host_rank.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/error.hpp"
#include "plan/text.hpp"
#include "runtime/lane_loop.hpp"

namespace plait {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The fingerprint of a call and of all calls before it: ranks that once called differently never agree again, also
// where nobody waited for anybody in that call.
uint64_t after_call(uint64_t calls, const Call& call) { return (calls ^ signature(call)) * 0x9e3779b97f4a7c15ULL; }

// A signal word carries the fingerprint's upper bits and the epoch: a signal of another call never passes for the
// awaited one.
constexpr uint64_t kEpochMask = (uint64_t{1} << 40) - 1;
uint64_t signal_value(uint64_t calls, uint64_t epoch) { return (calls & ~kEpochMask) | (epoch & kEpochMask); }

// Waits from here on are long enough to compare old calls, too.
constexpr double kLongWaitSeconds = 0.01;

std::atomic<uint64_t>& word(std::byte* signals, size_t offset) {
  return *reinterpret_cast<std::atomic<uint64_t>*>(signals + offset);
}

}  // namespace

// How long a rank has waited, by its own looks. A longer gap between two looks counts as kLongestGap: whoever was
// stopped meanwhile, by a shell or a debugger, with the peers perhaps, could not see them come.
class HostRank::WaitClock {
 public:
  bool is_running() const { return last_look_ != 0; }
  void reset() { *this = {}; }
  double waited() const { return waited_; }

  // Counts the time since the last look. True where it is time to examine the peers: often at first, later seldom, for
  // where ranks outnumber cores the examinations of many would slow down the one that they wait for.
  bool look() {
    const double now = seconds_now();
    if (is_running()) waited_ += std::min(now - last_look_, kLongestGap);
    last_look_ = now;
    if (waited_ < next_examination_) return false;
    next_examination_ = waited_ + std::min(waited_ / 4, kSeldomestExamination);
    return true;
  }

 private:
  static constexpr double kLongestGap = 0.25;
  static constexpr double kSeldomestExamination = 0.02;

  double last_look_ = 0;
  double waited_ = 0;
  double next_examination_ = 0;
};

// What advance_lane needs to perform one slice on this rank.
class HostRank::LaneEngine {
 public:
  LaneEngine(HostRank& rank, const BoundSlice& slice, const Call& call, uint64_t epoch)
      : slice_(slice),
        fold_(find_fold(call.type, call.op)),
        bases_(rank.bases_[epoch & 1].data()),
        signals_(rank.signals_[epoch & 1].data()),
        own_signals_(rank.signals_[epoch & 1][rank.rank_]),
        pointers_(rank.pointers_.data()),
        streaming_scratch_(rank.one_core_ ? 0 : ~0u),
        value_(signal_value(rank.calls_, epoch)) {}

  void fold(const BoundOperation& operation) {
    const BoundPlace* places = slice_.places.data() + operation.first_place;
    const int count = operation.destination_count + operation.source_count;
    for (int i = 0; i < count; ++i) pointers_[i] = bases_[places[i].base] + places[i].offset;
    FoldArguments arguments;
    arguments.destinations = pointers_;
    arguments.destination_count = operation.destination_count;
    arguments.sources = pointers_ + operation.destination_count;
    arguments.source_count = operation.source_count;
    arguments.elements = operation.elements;
    arguments.divisor = operation.divisor;
    arguments.result_is_wide = operation.result_is_wide;
    arguments.streaming_destinations = operation.streaming_outputs | (operation.streaming_scratch & streaming_scratch_);
    if (operation.has_wide_source) arguments.source_is_wide = slice_.source_is_wide.data() + operation.first_flag;
    // In place, an own chunk may already be where it belongs.
    if (count == 2 && pointers_[0] == pointers_[1] && operation.divisor == 0) return;
    fold_(arguments);
  }

  void signal(const BoundOperation& operation) {
    std::byte* line = signals_[operation.peer_rank] + operation.word_offset;
    if (operation.carries_data) {  // all that fits: a copy of a fixed size takes no time, and scratch has room to read
      const BoundPlace& data = slice_.places[operation.first_place];
      std::memcpy(line + sizeof(uint64_t), bases_[data.base] + data.offset, Segment::kSignalPayload);
    }
    word(line, 0).store(value_, std::memory_order_release);
  }

  bool wait(const BoundOperation& operation) {
    return word(own_signals_, operation.word_offset).load(std::memory_order_acquire) == value_;
  }

 private:
  const BoundSlice& slice_;
  const FoldFunction fold_;
  std::byte* const* bases_;
  std::byte* const* signals_;
  std::byte* own_signals_;
  void** pointers_;
  const uint32_t streaming_scratch_;  // a mask
  const uint64_t value_;
};

template <class Where>
void HostRank::examine(WaitClock& clock, const Call& call, const Where& where) {
  throw_if_failed();
  if (!clock.look()) return;
  hear_interrupts(call);
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    if (clock.waited() > kLongWaitSeconds) {  // oldest first: what followed a difference may differ for no other reason
      for (uint64_t age = std::min<uint64_t>(kCallHistory, call_number_) - 1; age > 0; --age) {
        compare_calls(peer, call_number_ - age);
      }
    }
    examine_peer(peer, call);
  }
  if (clock.waited() > options_.timeout_seconds) give_up(call, where());
}

HostRank::HostRank(std::shared_ptr<Segment> segment, int rank, Peers peers, Options options)
    : segment_(std::move(segment)),
      rank_(rank),
      ranks_(segment_->shape().ranks),
      peers_(std::move(peers)),
      options_(options),
      board_(segment_->board(rank)) {
  for (uint32_t parity = 0; parity < 2; ++parity) {
    bases_[parity].assign(kFirstScratchBase + ranks_ + 1, nullptr);
    bases_[parity].back() = segment_->signals(rank_, parity);
    for (int r = 0; r < ranks_; ++r) {
      bases_[parity][kFirstScratchBase + r] = segment_->scratch(r, parity);
      signals_[parity].push_back(segment_->signals(r, parity));
    }
  }
  board_.pid.store(getpid(), std::memory_order_relaxed);
  board_.waiting.store(kNotWaiting, std::memory_order_relaxed);
  board_.state.store(RankState::kPresent, std::memory_order_release);
}

HostRank::~HostRank() {
  // A forked child that ends is not the rank.
  if (fork_mark_.is_in_child()) return;
  board_.state.store(RankState::kClosed, std::memory_order_release);
}

void HostRank::run(const BoundPlan& bound, const Call& call, const void* input, void* output) {
  if (fork_mark_.is_in_child()) {
    fail(ErrorCode::kInvalidArgument, "rank ", rank_,
         ": this process was forked from the rank's, whose communicator it ", "cannot use; make one of its own");
  }
  throw_if_failed();
  ++call_number_;
  calls_ = after_call(calls_, call);
  publish(board_.calls, call_number_, call);
  look_at_cores(bound.full.streams_scratch || bound.last.streams_scratch);
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  for (size_t i = 0; i < bound.slices; ++i) {
    const size_t offset = i * bound.slice_bytes;
    run_slice(bound, i + 1 < bound.slices ? bound.full : bound.last, call, in == nullptr ? in : in + offset,
              out == nullptr ? out : out + offset);
  }
  board_.completed_call.store(call_number_, std::memory_order_release);
}

void HostRank::run_slice(const BoundPlan& bound, const BoundSlice& slice, const Call& call, const std::byte* input,
                         std::byte* output) {
  const uint64_t epoch = ++epoch_;
  // This epoch's half of scratch and signals was last used in epoch - 2.
  if (epoch > 2 && everyone_completed_ < epoch - 2) await_completion(epoch - 2, call);
  auto& bases = bases_[epoch & 1];
  bases[kInputBase] = const_cast<std::byte*>(input);
  bases[kOutputBase] = output;
  pointers_.resize(std::max<size_t>(pointers_.size(), slice.most_places));

  const size_t lanes = slice.lanes.size();
  next_.assign(lanes, 0);
  LaneEngine engine(*this, slice, call, epoch);
  Backoff backoff(options_.wait_policy, options_.crowded || shares_core_);
  WaitClock clock;
  const auto stop_waiting = [&] {
    if (clock.is_running()) board_.waiting.store(kNotWaiting, std::memory_order_relaxed);
    clock.reset();
  };
  for (;;) {
    size_t done = 0;
    size_t blocked = 0;
    bool moved = false;
    for (size_t lane = 0; lane < lanes; ++lane) {
      const auto& operations = slice.lanes[lane];
      const int before = next_[lane];
      const LaneState state = advance_lane(operations.data(), static_cast<int>(operations.size()), next_[lane], engine);
      moved |= next_[lane] != before;
      if (state == LaneState::kDone) {
        ++done;
      } else {
        blocked = lane;
      }
    }
    if (done == lanes) break;
    if (moved) {
      backoff.reset();
      stop_waiting();
      continue;
    }
    const bool long_wait = backoff.pause();
    if (backoff.has_spun_out()) shares_core_ = peers_on_this_core() > 0;
    if (!long_wait) continue;
    const BoundOperation& operation = slice.lanes[blocked][next_[blocked]];
    board_.waiting.store(static_cast<int64_t>(blocked) << 32 | operation.operation, std::memory_order_relaxed);
    examine(clock, call, [&] {
      const Plan& plan = bound.plan->plan();
      return join("plan ", plan.algorithm, ", lane ", blocked, ", operation ", operation.operation, " `",
                  to_text(plan.ranks[rank_].lanes[blocked].operations[operation.operation]), "`");
    });
  }
  stop_waiting();
  board_.completed_epoch.store(epoch, std::memory_order_release);
  // Whoever has entered an epoch is done with the one before.
  if (bound.plan->report().synchronizes) everyone_completed_ = epoch - 1;
}

// The kernel may run ranks on one core although there are others, which something else keeps busy. Then spinning keeps
// the peer from running that is waited for. And where all ranks are on one core, no other core's cache holds lines of
// scratch, and ordinary stores to it are the faster ones (docs/benchmarks.md, "Stores to shared memory"). A rank that
// has moved meanwhile loses some time, nothing else. Others' boards are not looked at without need: they lie in the
// caches of other cores.
void HostRank::look_at_cores(bool streams) {
  const int core = sched_getcpu();
  if (core != core_) board_.core.store(core_ = core, std::memory_order_relaxed);
  if (shares_core_) shares_core_ = peers_on_this_core() > 0;
  one_core_ = streams && peers_on_this_core() == ranks_ - 1;
}

int HostRank::peers_on_this_core() const {
  int count = 0;
  for (int peer = 0; peer < ranks_; ++peer) {
    count += peer != rank_ && segment_->board(peer).core.load(std::memory_order_relaxed) == core_;
  }
  return count;
}

void HostRank::await_completion(uint64_t epoch, const Call& call) {
  Backoff backoff(options_.wait_policy, options_.crowded);
  WaitClock clock;
  for (int peer = 0; peer < ranks_; ++peer) {
    while (segment_->board(peer).completed_epoch.load(std::memory_order_acquire) < epoch) {
      if (!backoff.pause()) continue;
      board_.waiting.store(kWaitingForScratch, std::memory_order_relaxed);
      examine(clock, call, [&] { return join("the wait for rank ", peer, " to be done with an earlier call"); });
    }
  }
  if (clock.is_running()) board_.waiting.store(kNotWaiting, std::memory_order_relaxed);
  everyone_completed_ = epoch;
}

void HostRank::abort(ErrorCode code, const std::string& message) {
  if (fork_mark_.is_in_child()) return;
  set_failure(segment_->failure(), code, rank_, message);
}

void HostRank::throw_if_failed() const {
  if (segment_->failure().is_set()) throw *failure_in(segment_->failure(), rank_);
}

void HostRank::fail_all(ErrorCode code, const std::string& message) {
  abort(code, message);
  throw_if_failed();
  fail(code, message);
}

void HostRank::compare_calls(int peer, uint64_t number) {
  Call own, theirs;
  if (!look_up(board_.calls, number, own) || !look_up(segment_->board(peer).calls, number, theirs) || own == theirs)
    return;
  fail_all(ErrorCode::kMismatch,
           join("call ", number, " differs between ranks: rank ", rank_, " called ", to_text(own), ", rank ", peer,
                " called ", to_text(theirs), "; all ranks must make the same calls in the same order"));
}

void HostRank::hear_interrupts(const Call& call) {
  constexpr double kSecondsBetween = 0.05;
  if (!interrupt_check_ || seconds_now() - interrupt_checked_ < kSecondsBetween) return;
  interrupt_checked_ = seconds_now();
  try {
    interrupt_check_();
  } catch (...) {
    abort(ErrorCode::kPeerFailed, join("rank ", rank_, " was interrupted in call ", call_number_, ", ", to_text(call)));
    throw;
  }
}

void HostRank::examine_peer(int peer, const Call& call) {
  const RankBoard& board = segment_->board(peer);
  compare_calls(peer, call_number_);
  if (board.completed_call.load(std::memory_order_acquire) >= call_number_) return;  // it has given what it had to give
  const bool closed = board.state.load(std::memory_order_acquire) == RankState::kClosed;
  if (!closed && peers_.alive(peer)) return;
  // It may have completed the call just before it went.
  if (board.completed_call.load(std::memory_order_acquire) >= call_number_) return;
  fail_all(ErrorCode::kPeerFailed,
           join("rank ", peer, " (process ", peers_.pid(peer), ") ", closed ? "closed its communicator" : "has died",
                " while rank ", rank_, " was in call ", call_number_, ", ", to_text(call), "; rank ", peer, " ",
                last_act(peer)));
}

std::string HostRank::last_act(int peer) const {
  const RankBoard& board = segment_->board(peer);
  const uint64_t entered = board.calls.entered.load(std::memory_order_acquire);
  const uint64_t completed = board.completed_call.load(std::memory_order_acquire);
  if (entered == 0) return "never made a call";
  Call call;
  const std::string text = look_up(board.calls, entered, call) ? join(", ", to_text(call)) : "";
  if (completed >= entered) return join("last completed call ", entered, text, ", and has called nothing since");
  const int64_t waiting = board.waiting.load(std::memory_order_relaxed);
  return join("entered call ", entered, text,
              waiting >= 0 ? join(" and waits there (lane ", waiting >> 32, ", operation ", waiting & 0xffffffff, ")")
              : waiting == kWaitingForScratch
                  ? std::string(" and waits there for others to be done with an earlier call")
                  : std::string(" and has not finished it"));
}

// Most waits end at a rank that waits itself. The culprits are those that have not come or were stopped, or else those
// that do not wait, or else all that are not done.
std::vector<int> HostRank::culprits() const {
  std::vector<int> absent, busy, late;
  for (int peer = 0; peer < ranks_; ++peer) {
    const RankBoard& board = segment_->board(peer);
    if (peer == rank_ || board.completed_call.load(std::memory_order_acquire) >= call_number_) continue;
    const bool entered = board.calls.entered.load(std::memory_order_acquire) >= call_number_;
    if (!entered || peers_.state(peer).starts_with("stopped")) absent.push_back(peer);
    if (board.waiting.load(std::memory_order_relaxed) == kNotWaiting) busy.push_back(peer);
    late.push_back(peer);
  }
  return !absent.empty() ? absent : !busy.empty() ? busy : late;
}

void HostRank::give_up(const Call& call, const std::string& where) {
  std::string message = join("rank ", rank_, " waited more than ", options_.timeout_seconds,
                             " s (PLAIT_TIMEOUT_SEC) in call ", call_number_, ", ", to_text(call), ", at ", where);
  for (const int peer : culprits()) {
    message += join("; rank ", peer, " (process ", peers_.pid(peer), ", ", peers_.state(peer), ") ", last_act(peer));
  }
  fail_all(ErrorCode::kTimeout, message);
}

}  // namespace plait
