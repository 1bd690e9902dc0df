// Watches over kernels.
#include "runtime/cuda/rank/watchdog.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace plait {
namespace {

// Rare enough to cost nothing, and frequent enough that no kernel spins long for a rank that is gone.
constexpr auto kPollInterval = std::chrono::milliseconds(20);

// The GPU writes the state last: if it is not kNone, the whole report is there. Read it only once, since for messages
// another channel may be writing the same report.
uint32_t state_of(const ChannelFailure& failure) {
  const uint32_t state = *static_cast<const volatile uint32_t*>(&failure.state);
  std::atomic_thread_fence(std::memory_order_acquire);
  return state;
}

// The queue that is furthest behind, of those that gave up: queues wait for each other, so its report tells most. The
// epochs of host-path channels and of those of long plans do not compare with the others'; they count only if no
// channel before them gave up.
int furthest_behind(const ChannelFailure* failures) {
  int found = -1;
  for (int i = 0; i < kAllStates; ++i) {
    const bool begins_others = i == OrdinaryRoom::state_of(kMostChannels, 0) || i == LongRoom::state_of(0, 0);
    if (begins_others && found >= 0) break;
    if (state_of(failures[i]) == ChannelFailure::kNone) continue;
    if (found < 0 || failures[i].expected_epoch < failures[found].expected_epoch) found = i;
  }
  return found;
}

std::string name_of_queue(int state) {
  if (const int of_long = state - OrdinaryRoom::kStates; of_long >= 0) {
    return join("CTA ", of_long / kLongQueues, " of a long plan, queue ", of_long % kLongQueues);
  }
  const int channel = state / kMostQueues, queue = state % kMostQueues;
  if (channel < kMostChannels) return join("CTA ", channel, ", queue ", queue);
  return join("CTA ", channel - kMostChannels, " of the host path, queue ", queue);
}

std::string name_of_wait(int operation) {
  if (operation == ChannelFailure::kData) return "its wait for data";
  if (operation == ChannelFailure::kEarlierEpoch) return "its wait for the others to finish an earlier epoch";
  return join("operation ", operation, " of its queue");
}

// Parts of error messages, by BarrierKind.
struct BarrierText {
  const char* where;
  const char* makes_another;
  const char* awaited;
};
constexpr BarrierText kBarrierTexts[kBarrierKinds] = {
    {"a barrier before or after copies", "makes another call",
     "to make the same call, or to have read this rank's buffer"},
    {"a zero-copy send", "receives another message", "to have read this rank's buffer"},
    {"a zero-copy receive", "sends another message", "to send"}};

constexpr const char* kBlockingHint =
    "; with CUDA_LAUNCH_BLOCKING set, a launch returns only after the other ranks have launched theirs, so ranks of "
    "one "
    "process need a thread each";

bool launches_block() {
  const char* const setting = std::getenv("CUDA_LAUNCH_BLOCKING");
  return setting != nullptr && *setting != '\0' && std::string_view(setting) != "0";
}

}  // namespace

Watchdog::Watchdog(CommunicatorState& state, Reports& reports, const WaitLimits& limits)
    : state_(state),
      reports_(reports),
      limits_(limits),
      long_wait_(limits.notice_seconds),
      polling_(kPollInterval, [this] { poll(); }) {}

void Watchdog::poll_reports() {
  report_channels();
  report_messages();
  report_barriers();
  state_.compare_calls();
}

void Watchdog::poll() {
  poll_reports();
  state_.look_after_peers();
  notice_long_waits();
  if (state_.has_failed()) *static_cast<volatile uint32_t*>(&reports_.aborted) = 1;
}

// Logs that a rank is long in making a call. Hosts see calls but no kernels, so waits for messages are not noticed.
void Watchdog::notice_long_waits() {
  const std::optional<uint64_t> awaited = state_.awaited_call();
  if (awaited != awaited_call_) {
    awaited_call_ = awaited;
    clock_.reset();
    long_wait_.reset();
  }
  if (!awaited || state_.has_failed()) return;
  clock_.look();
  const std::optional<double> notice = long_wait_.notice(clock_.waited());
  if (!notice || !limits_.log.shows(LogLevel::kWarn)) return;
  limits_.log.warn("has waited ", *notice, " s for all ranks to make call ", *awaited, "; ", state_.describe(),
                   "; fails after ", limits_.timeout_seconds, " s (PLAIT_TIMEOUT_SEC)");
}

void Watchdog::report_channels() {
  const int found = furthest_behind(reports_.channels);
  if (found < 0 || state_.has_failed()) return;
  const ChannelFailure& failure = reports_.channels[found];
  const std::string who = join("rank ", state_.rank(), ", ", name_of_queue(found));
  const std::string where = name_of_wait(failure.operation);
  if (failure.state == ChannelFailure::kOtherCall) {
    // If the other ranks' plans differ, the signal may come from another rank than the one in this rank's plan.
    const std::string whose = failure.peer == state_.rank() ? "another rank" : join("rank ", failure.peer);
    state_.abort(ErrorCode::kMismatch, join(who, ": ", whose, " makes another call at the same time (seen at ", where,
                                            "); ", state_.describe()));
    return;
  }
  time_out(join(who, " waited longer than PLAIT_TIMEOUT_SEC allows for rank ", failure.peer, " at ", where,
                ", in epoch ", failure.expected_epoch, "; the last epoch seen was ", failure.seen_epoch));
}

void Watchdog::report_messages() {
  const auto report = [&](const ChannelFailure& failure, const char* what, const char* whom) {
    const uint32_t state = state_of(failure);
    if (state == ChannelFailure::kNone || state_.has_failed()) return;
    const std::string who = join("rank ", state_.rank(), ", in ", what, " rank ", failure.peer);
    if (state == ChannelFailure::kOtherSize) {
      state_.abort(ErrorCode::kMismatch, join(who, ": rank ", failure.peer, " sent a message of ", failure.seen_epoch,
                                              " bytes, and the receive is of ", failure.expected_epoch,
                                              " bytes; both ends must give the same size"));
      return;
    }
    time_out(join(who, ", waited longer than PLAIT_TIMEOUT_SEC allows for rank ", failure.peer, " to ", whom,
                  " (pieces expected: ", failure.expected_epoch, ", seen: ", failure.seen_epoch, ")"));
  };
  for (const ChannelFailure& failure : reports_.receives) report(failure, "a receive from", "send");
  for (const ChannelFailure& failure : reports_.sends) report(failure, "a send to", "receive");
}

void Watchdog::report_barriers() {
  for (int barrier = 0; barrier < kBarriers; ++barrier) {
    const ChannelFailure& failure = reports_.barriers[barrier];
    const uint32_t state = state_of(failure);
    if (state == ChannelFailure::kNone || state_.has_failed()) continue;
    const BarrierText text = kBarrierTexts[barrier / kMostDeviceRanks];
    const std::string who = join("rank ", state_.rank(), ", in ", text.where);
    if (state == ChannelFailure::kOtherCall) {
      state_.abort(ErrorCode::kMismatch, join(who, ": rank ", failure.peer, ' ', text.makes_another,
                                              " at the same time; ", state_.describe()));
      continue;
    }
    time_out(join(who, ", waited longer than PLAIT_TIMEOUT_SEC allows for rank ", failure.peer, ' ', text.awaited,
                  " (signals expected: ", failure.expected_epoch, ", seen: ", failure.seen_epoch, ")"));
  }
}

void Watchdog::time_out(const std::string& what) {
  const bool blocks = launches_block() && state_.process_sharing() != ProcessSharing::kNone;
  state_.abort(ErrorCode::kTimeout, join(what, "; ", state_.describe(), blocks ? kBlockingHint : ""));
}

}  // namespace plait
