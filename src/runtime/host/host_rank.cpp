// Performs plans and exchanges messages on the host.
#include "runtime/host/host_rank.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "plan/text.hpp"
#include "runtime/host/call_difference.hpp"
#include "runtime/host/last_look.hpp"
#include "runtime/host/queue_engines.hpp"
#include "runtime/queue_loop.hpp"

namespace plait {
namespace {

// Nanoseconds, of a wait for shared memory.
constexpr long kLongestSleepForMemory = 20'000;
// Seconds. A longer wait is for a rank that is absent, and sleeps as any wait does.
constexpr double kLongWait = 0.1;
// A rank that has no message under way looks at the network once in so many looks: others may want an answer.
constexpr unsigned kLooksAtMemory = 64;

}  // namespace

// A wait for other ranks in a call. Ranks that make a different call, or that go before they have done their part, end
// it.
class HostRank::CallWait : public Wait {
 public:
  CallWait(const HostRank& rank, const Call& call) : rank_(rank), call_(call) {}

  void examine(bool long_wait) override;
  std::string what() const override { return join("call ", rank_.call_number_, ", ", to_text(call_)); }
  std::vector<int> culprits() const override;

 private:
  void examine_peer(int peer);
  void compare_calls(int peer, bool also_earlier) const;
  void examine_other_nodes() const;
  bool has_entered(int peer) const;
  bool has_completed(int peer) const {
    return status(peer).completed_call.load(std::memory_order_acquire) >= rank_.call_number_;
  }
  const RankStatus& status(int peer) const { return rank_.segment_->status(peer); }

  const HostRank& rank_;
  const Call& call_;
};

// A wait at an operation of a queue.
class HostRank::QueueWait final : public CallWait {
 public:
  QueueWait(const HostRank& rank, const Call& call, const BoundPlan& bound, const BoundSlice& slice,
            size_t blocked_queue)
      : CallWait(rank, call),
        own_rank_(rank.rank_),
        bound_(bound),
        slice_(slice),
        next_(rank.next_),
        queue_(blocked_queue) {}

  void publish(RankStatus& status) const override {
    status.waiting.store(static_cast<int64_t>(queue_) << 32 | operation(), std::memory_order_relaxed);
  }
  std::string where() const override {
    const Plan& plan = bound_.plan->plan();
    const char* const rest = slice_.requests > 0 ? "messages have not all left" : "work requests are not all done";
    if (is_at_end()) return join("plan ", plan.algorithm, ", whose ", rest);
    return join("plan ", plan.algorithm, ", queue ", queue_, ", operation ", operation(), " `",
                to_text(plan.ranks[own_rank_].queues[queue_].operations[operation()]), "`");
  }

 private:
  bool is_at_end() const { return queue_ == slice_.queues.size(); }
  int operation() const { return is_at_end() ? 0 : slice_.queues[queue_][next_[queue_]].operation; }

  const int own_rank_;
  const BoundPlan& bound_;
  const BoundSlice& slice_;
  const std::vector<int>& next_;
  const size_t queue_;
};

// A wait for a rank to complete an earlier call.
class HostRank::ScratchWait final : public CallWait {
 public:
  ScratchWait(const HostRank& rank, const Call& call, int peer) : CallWait(rank, call), peer_(peer) {}
  void publish(RankStatus& status) const override {
    status.waiting.store(kWaitingForScratch, std::memory_order_relaxed);
  }
  std::string where() const override { return join("the wait for rank ", peer_, " to be done with an earlier call"); }

 private:
  const int peer_;
};

// A wait for a train of messages.
class HostRank::TrainWait final : public CallWait {
 public:
  using CallWait::CallWait;
  void publish(RankStatus& status) const override { status.waiting.store(kWaitingForTrain, std::memory_order_relaxed); }
  std::string where() const override { return "messages that measure the network"; }
};

void HostRank::CallWait::examine(bool long_wait) {
  for (int peer = 0; peer < rank_.ranks_; ++peer) {
    if (peer == rank_.rank_) continue;
    compare_calls(peer, long_wait);
    examine_peer(peer);
  }
  if (rank_.others_ && long_wait) examine_other_nodes();
}

// Tells them of this call, and hears of theirs.
void HostRank::CallWait::examine_other_nodes() const {
  OtherNodes& others = *rank_.others_;
  others.tell(rank_.call_number_, call_);
  for (const auto& word : others.words()) {
    Call own;
    if (!word || !look_up(rank_.status_.calls, word->number, own) || own == word->call) continue;
    rank_.watch_.fail_all(ErrorCode::kMismatch,
                          describe_difference(word->number, rank_.rank_, own, word->rank, word->call));
  }
  for (int peer = 0; peer < rank_.ranks_; ++peer) {
    if (!others.has(peer) || has_completed(peer) || !others.is_lost(peer)) continue;
    rank_.watch_.fail_all(ErrorCode::kPeerFailed,
                          join(rank_.watch_.named(peer), " is out of reach (", others.loss(peer), ") while rank ",
                               rank_.rank_, " was in ", what()));
  }
}

void HostRank::CallWait::compare_calls(int peer, bool also_earlier) const {
  const auto log = &RankStatus::calls;
  const auto now = difference_at(*rank_.segment_, log, rank_.rank_, peer, rank_.call_number_);
  if (!now && !also_earlier) return;
  // Report the first difference: later calls may differ only because of it.
  const auto difference = first_difference(*rank_.segment_, log, rank_.rank_, peer);
  if (difference) rank_.watch_.fail_all(ErrorCode::kMismatch, *difference);
}

void HostRank::CallWait::examine_peer(int peer) {
  if (has_completed(peer)) return;  // it has done its part
  const char* departure = rank_.watch_.departure(peer);
  // It may have completed the call just before it left.
  if (departure != nullptr && !has_completed(peer)) rank_.watch_.fail_without(peer, departure, what());
}

// A rank on another node says so once it has waited itself.
bool HostRank::CallWait::has_entered(int peer) const {
  if (!rank_.is_elsewhere(peer)) {
    return status(peer).calls.entered.load(std::memory_order_acquire) >= rank_.call_number_;
  }
  const auto& word = rank_.others_->words()[peer];
  return word && word->number >= rank_.call_number_;
}

// Most waits end at a rank that waits itself. The culprits are the ranks that have not entered the call or were
// stopped. If there are none, they are those that do not wait. If there are none either, they are all that have not
// completed the call.
std::vector<int> HostRank::CallWait::culprits() const {
  std::vector<int> absent, busy, late;
  for (int peer = 0; peer < rank_.ranks_; ++peer) {
    if (peer == rank_.rank_ || has_completed(peer)) continue;
    if (!has_entered(peer) || rank_.watch_.is_stopped(peer)) absent.push_back(peer);
    const bool waits = rank_.is_elsewhere(peer) || status(peer).waiting.load(std::memory_order_relaxed) != kNotWaiting;
    if (!waits) busy.push_back(peer);
    late.push_back(peer);
  }
  return !absent.empty() ? absent : !busy.empty() ? busy : late;
}

HostRank::HostRank(std::shared_ptr<Segment> segment, int rank, Peers peers, Options options,
                   std::unique_ptr<OtherNodes> others)
    : segment_(std::move(segment)),
      rank_(rank),
      ranks_(segment_->shape().ranks),
      options_(options),
      status_(segment_->status(rank)),
      watch_(segment_, rank, std::move(peers), options.waits),
      others_(std::move(others)),
      messages_(*segment_, rank, watch_, others_.get()),
      p2p_(*segment_, rank, watch_, others_.get()) {
  for (uint32_t room = 0; room < kRooms; ++room) {
    bases_[room].assign(first_host_base(ranks_) + ranks_, nullptr);
    bases_[room][kFirstScratchBase + ranks_] = segment_->signals(rank_, room);
    for (int r = 0; r < ranks_; ++r) {
      bases_[room][kFirstScratchBase + r] = segment_->scratch(r, room);
      bases_[room][first_host_base(ranks_) + r] = segment_->scratch(r, room);
      signals_[room].push_back(segment_->signals(r, room));
    }
  }
  status_.pid.store(getpid(), std::memory_order_relaxed);
  status_.waiting.store(kNotWaiting, std::memory_order_relaxed);
  status_.state.store(RankState::kPresent, std::memory_order_release);
}

HostRank::~HostRank() {
  if (fork_mark_.is_in_child()) static_cast<void>(others_.release());  // its connections are the parent's
  try {
    leave(0);
  } catch (const std::exception& error) {
    options_.waits.log.error(error.what());
  }
}

void HostRank::close() { leave(std::min(LastLook::kTimeoutSeconds, options_.waits.timeout_seconds)); }

void HostRank::leave(double timeout_seconds) {
  // A forked child that ends is not the rank.
  if (has_left_ || fork_mark_.is_in_child()) return;
  has_left_ = true;
  // Sequentially consistent with the loads of others: if two ranks leave together, at least one sees that the other has
  // left.
  status_.state.store(RankState::kClosed, std::memory_order_seq_cst);
  if (others_ && !segment_->failure().is_set()) others_->finish(LastLook::kTimeoutSeconds);
  LastLook look(*segment_, rank_, watch_);
  const Deadline deadline = Deadline::after(timeout_seconds);
  Backoff backoff(options_.wait_policy, options_.crowded);
  while (!look.is_over() && !deadline.passed()) {
    if (backoff.pause()) watch_.hear_interrupts();
  }
}

template <class RunSlice>
void HostRank::run_slices(const BoundPlan& bound, const Call& call, const void* input, void* output,
                          const RunSlice& run) {
  check_usable();
  ++call_number_;
  calls_ = publish(status_.calls, call_number_, call);
  if (is_empty(call)) return status_.completed_call.store(call_number_, std::memory_order_release);
  look_at_cores(bound.streams_scratch());
  const auto* in = static_cast<const std::byte*>(input);
  auto* out = static_cast<std::byte*>(output);
  with_other_nodes([&] {
    size_t offset = 0;
    const auto run_alike = [&](size_t slices, const BoundSlice& slice) {
      for (size_t i = 0; i < slices; ++i, offset += bound.slice_bytes) {
        run(slice, in == nullptr ? in : in + offset, out == nullptr ? out : out + offset);
      }
    };
    for (const SliceRun& it : bound.unequal) run_alike(it.slices, it.slice);
    if (!bound.unequal.empty()) return;
    run_alike(bound.slices - 1, bound.full);
    run_alike(1, bound.last);
  });
  status_.completed_call.store(call_number_, std::memory_order_release);
}

void HostRank::run(const BoundPlan& bound, const Call& call, const void* input, void* output) {
  run_slices(bound, call, input, output, [&](const BoundSlice& slice, const std::byte* in, std::byte* out) {
    run_slice(bound, slice, call, in, out);
  });
}

void HostRank::run(const BoundPlan& bound, const Call& call, const void* input, void* output, ReduceDevice& device) {
  run_slices(bound, call, input, output, [&](const BoundSlice& slice, const std::byte* in, std::byte* out) {
    drive_slice(bound, slice, call, in, out, device);
  });
}

void HostRank::run_slice(const BoundPlan& bound, const BoundSlice& slice, const Call& call, const std::byte* input,
                         std::byte* output) {
  const PlanMessages::Turn turn = begin_epoch(slice, call);
  auto& bases = bases_[turn.room];
  bases[kInputBase] = const_cast<std::byte*>(input);
  bases[kOutputBase] = output;
  begin_messages(slice, call, turn, {bases.data()});
  QueueEngine engine(*this, slice, call, turn);
  perform(bound, slice, call, engine);
  end_epoch(bound, turn.epoch);
}

void HostRank::drive_slice(const BoundPlan& bound, const BoundSlice& slice, const Call& call, const std::byte* input,
                           std::byte* output, ReduceDevice& device) {
  const PlanMessages::Turn turn = begin_epoch(slice, call);
  const std::vector<std::byte*> on_gpu = bases_on_gpu(turn.room, input, output, device);
  PlanMessages::Bases of_network = {bases_[turn.room].data()};
  // A network that reaches GPUs has their memory by their addresses, and host memory by those of the CPU.
  std::vector<std::byte*> of_both;
  if (network_reaches_gpus()) {
    const uint32_t of_gpu = first_host_base(ranks_) - 1;
    of_both = bases_[turn.room];
    std::copy_n(on_gpu.begin(), of_gpu, of_both.begin());
    of_network = {of_both.data(), of_gpu};
  }
  begin_messages(slice, call, turn, of_network);
  DrivenEngine engine(*this, slice, call, turn, device, on_gpu);
  perform(bound, slice, call, engine);
  end_epoch(bound, turn.epoch);
}

// Signals have no address there.
std::vector<std::byte*> HostRank::bases_on_gpu(uint32_t room, const std::byte* input, std::byte* output,
                                               const ReduceDevice& device) const {
  std::vector<std::byte*> bases(bases_[room].size(), nullptr);
  bases[kInputBase] = const_cast<std::byte*>(input);
  bases[kOutputBase] = output;
  for (int r = 0; r < ranks_; ++r) {
    bases[kFirstScratchBase + static_cast<uint32_t>(r)] = device.scratch(r, room);
    bases[first_host_base(ranks_) + static_cast<uint32_t>(r)] = device.of_host(segment_->scratch(r, room));
  }
  return bases;
}

void HostRank::begin_messages(const BoundSlice& slice, const Call& call, const PlanMessages::Turn& turn,
                              const PlanMessages::Bases& bases) {
  if (slice.requests > 0) messages_.begin(slice, {call, call_number_, calls_}, turn, bases);
}

PlanMessages::Turn HostRank::begin_epoch(const BoundSlice& slice, const Call& call) {
  const uint64_t epoch = ++epoch_;
  const EpochRooms::Turn turn = rooms_.take(slice.is_small, epoch);
  if (everyone_completed_ < turn.last_epoch) await_completion(turn.last_epoch, call);
  return {epoch, turn.room};
}

// Whether an operation that is not over waits for anything but messages from other hosts. This rank's own signals come
// after such messages.
bool HostRank::is_in_memory(const BoundOperation& operation) const {
  const bool is_message = operation.kind == OpKind::kSend || operation.kind == OpKind::kReceive;
  return is_message ? operation.in_memory : operation.kind != OpKind::kWait || operation.peer_rank != rank_;
}

template <class Engine>
void HostRank::perform(const BoundPlan& bound, const BoundSlice& slice, const Call& call, Engine& engine) {
  const size_t queues = slice.queues.size();
  next_.assign(queues, 0);
  size_t blocked = 0;
  wait_for(
      [&] {
        size_t done = 0;
        // The answers of a GPU wake nobody either.
        bool moved = false, awaits_memory = requires { engine.is_over(); };
        if (slice.requests > 0) messages_.progress();
        for (size_t queue = 0; queue < queues; ++queue) {
          const auto& operations = slice.queues[queue];
          const int before = next_[queue];
          if constexpr (requires { engine.turn_to(queue); }) engine.turn_to(queue);
          const QueueState state =
              advance_queue(operations.data(), static_cast<int>(operations.size()), next_[queue], engine);
          moved |= next_[queue] != before;
          if (state == QueueState::kDone) {
            ++done;
          } else {
            blocked = queue;
            awaits_memory |= !others_ || is_in_memory(operations[static_cast<size_t>(next_[queue])]);
          }
        }
        if constexpr (requires { engine.release(); }) moved |= engine.release();
        if (slice.requests > 0) moved |= messages_.has_moved();
        if (done == queues) {
          blocked = queues;
          const bool is_over = slice.requests == 0 || messages_.has_sent_all();
          if constexpr (requires { engine.is_over(); }) {
            if (is_over && engine.is_over()) return Progress::kDone;
          } else if (is_over) {
            return Progress::kDone;
          }
        }
        if (moved) return Progress::kSome;
        return awaits_memory || messages_.is_sending_in_memory() ? Progress::kNone : Progress::kAwaitsHosts;
      },
      [&] { return QueueWait(*this, call, bound, slice, blocked); }, slice.requests > 0);
}

void HostRank::end_epoch(const BoundPlan& bound, uint64_t epoch) {
  const uint64_t stamp = stamp_of(calls_, epoch);
  stamps_[epoch % std::size(stamps_)] = stamp;
  status_.completed.store(stamp, std::memory_order_release);
  // A rank that has entered an epoch has completed the one before.
  if (bound.plan->report().synchronizes) everyone_completed_ = epoch - 1;
}

// The kernel may run ranks on one core although other cores exist, because something else keeps those busy. Spinning
// then keeps the awaited peer from running. If all ranks are on one core, no other core's cache holds lines of scratch,
// and ordinary stores to it are faster (docs/notes/cpu_shared_memory.md). A rank that moves to another core meanwhile
// loses only some time. The statuses of others are read only when needed, because they lie in the caches of other
// cores.
void HostRank::look_at_cores(bool streams) {
  const int core = sched_getcpu();
  if (core != core_) status_.core.store(core_ = core, std::memory_order_relaxed);
  if (shares_core_) shares_core_ = peers_on_this_core() > 0;
  one_core_ = streams && peers_on_this_core() == ranks_ - 1;
}

int HostRank::peers_on_this_core() const {
  int count = 0;
  for (int peer = 0; peer < ranks_; ++peer) {
    count += peer != rank_ && segment_->status(peer).core.load(std::memory_order_relaxed) == core_;
  }
  return count;
}

void HostRank::await_completion(uint64_t epoch, const Call& call) {
  int peer = 0;
  uint64_t everyone = epoch_ - 1;  // this rank has completed that, and others often more than is asked for
  wait_for(
      [&] {
        for (; peer < ranks_; ++peer) {
          if (is_elsewhere(peer)) continue;  // it has no hand in this memory
          const uint64_t stamp = segment_->status(peer).completed.load(std::memory_order_acquire);
          const int64_t more = epochs_after(stamp, epoch);
          if (more < 0) return Progress::kNone;
          compare_calls(peer, stamp);
          everyone = std::min(everyone, epoch + static_cast<uint64_t>(more));
        }
        return Progress::kDone;
      },
      [&] { return ScratchWait(*this, call, peer); }, false);
  everyone_completed_ = everyone;
}

// The stamp may belong to an epoch that this rank has not completed. The other rank then compares this rank's stamp
// with its own.
void HostRank::compare_calls(int peer, uint64_t stamp) const {
  const uint64_t own = stamps_[stamp % std::size(stamps_)];
  if (own == stamp || epochs_after(stamp, own) != 0) return;
  watch_.fail_all(ErrorCode::kMismatch, describe_difference(*segment_, &RankStatus::calls, rank_, peer));
}

void HostRank::exchange(std::span<const PeerMessage> messages, const WantedCheck& is_wanted) {
  check_usable();
  if (messages.empty()) return;
  look_at_cores(false);
  p2p_.begin(messages, is_wanted);
  P2pLog& log = status_.exchanges;
  const uint64_t number = log.entered.load(std::memory_order_relaxed) + 1;
  plait::publish(log, p2p_.first());
  log.after_call.store(call_number_, std::memory_order_relaxed);
  log.entered.store(number, std::memory_order_release);
  with_other_nodes([&] {
    wait_for(
        [&] {
          const bool moved = p2p_.advance();
          return p2p_.done() ? Progress::kDone : moved ? Progress::kSome : Progress::kNone;
        },
        [&]() -> Wait& { return p2p_; }, true);
  });
  log.completed.store(number, std::memory_order_release);
}

TrainTime HostRank::exchange_train(const Call& call, int to, int from, size_t bytes) {
  check_usable();
  ++call_number_;
  calls_ = publish(status_.calls, call_number_, call);
  TrainTime time;
  if (to >= 0) {
    with_other_nodes([&] {
      MessageTrain train(*others_, to, from, train_tag(calls_), bytes);
      const auto step = [&] {
        const bool moved = train.advance();
        return train.is_over() ? Progress::kDone : moved ? Progress::kSome : Progress::kNone;
      };
      wait_for(step, [&] { return TrainWait(*this, call); }, true);
      time = train.time();
    });
  }
  status_.completed_call.store(call_number_, std::memory_order_release);
  return time;
}

template <class Step>
void HostRank::with_other_nodes(Step step) {
  if (!others_) return step();
  const auto turn = others_->take_turn();
  try {
    step();
  } catch (...) {
    others_->cut();
    messages_.give_up();
    p2p_.give_up();
    throw;
  }
}

template <class Step, class Reason>
void HostRank::wait_for(Step step, Reason reason, bool has_messages) {
  // With a network each look at it is a call of the kernel, beside which a yield costs nothing.
  Backoff backoff(options_.wait_policy, options_.crowded || shares_core_ || others_);
  WaitClock clock;
  const auto stop_waiting = [&] {
    if (clock.is_running()) status_.waiting.store(kNotWaiting, std::memory_order_relaxed);
    clock.reset();
  };
  unsigned looks = 0;
  const auto look_at_network = [&] {
    return others_ && (has_messages || ++looks % kLooksAtMemory == 0) && others_->progress();
  };
  Progress before = Progress::kNone;
  for (;;) {
    // The step comes first: a message then finds the memory that it is for, and a call that awaits nobody asks nobody.
    Progress progress = step();
    if (progress != Progress::kDone && look_at_network() && progress != Progress::kSome) progress = step();
    if (progress == Progress::kSome || progress == Progress::kDone) {
      stop_waiting();
      if (progress == Progress::kDone) return;
      backoff.reset();
      continue;
    }
    // What a step began may be over at once, and then nothing wakes a sleeper: so two steps have to say the same.
    const bool long_wait = pause(backoff, progress == before ? progress : Progress::kNone, clock.waited());
    before = progress;
    if (backoff.has_spun_out()) shares_core_ = peers_on_this_core() > 0;
    if (!long_wait) continue;
    auto&& wait = reason();
    wait.publish(status_);
    watch_.look(clock, wait);
  }
}

// A message from another host wakes a rank that sleeps; a signal in shared memory does not. A slow network makes all
// waits long, also those for what is done at once on this host, and a rank that slept there for long would rest the
// network.
bool HostRank::pause(Backoff& backoff, Progress progress, double waited) {
  if (!others_) return backoff.pause();
  const bool sleeps_long = progress == Progress::kAwaitsHosts || waited > kLongWait;
  const auto sleep = [&](long nanoseconds) {
    others_->sleep(sleeps_long ? nanoseconds : std::min(nanoseconds, kLongestSleepForMemory));
    core_share_.slept(seconds_now());
  };
  if (progress == Progress::kAwaitsHosts && core_share_.is_wanted()) return backoff.sleep(sleep);
  return backoff.pause([&] { core_share_.yield(); }, sleep);
}

void HostRank::abort(ErrorCode code, const std::string& message) {
  if (fork_mark_.is_in_child()) return;
  segment_->record_failure(code, rank_, message);
}

void HostRank::check_usable() const {
  if (fork_mark_.is_in_child()) {
    fail(ErrorCode::kInvalidArgument, "rank ", rank_,
         ": this process was forked from the rank's process and cannot use its communicator; make a new one");
  }
  if (has_left_) fail(ErrorCode::kInvalidArgument, "rank ", rank_, ": this communicator is closed");
  watch_.throw_if_failed();
}

}  // namespace plait
