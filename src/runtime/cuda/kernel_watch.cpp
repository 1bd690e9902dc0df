// Looking after kernels.
#include "runtime/cuda/kernel_watch.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace plait {
namespace {

// Seldom enough to cost nothing, often enough that nobody spins long for a rank that is gone.
constexpr auto kBetweenLooks = std::chrono::milliseconds(20);

// In memory that the GPU writes, the state last: where it is not kNone, all of it is there. To be read once, since of
// messages another strand may be about to write the same.
uint32_t state_of(const StrandFailure& failure) {
  const uint32_t state = *static_cast<const volatile uint32_t*>(&failure.state);
  std::atomic_thread_fence(std::memory_order_acquire);
  return state;
}

// Lanes wait for each other: of all that gave up, the one that is furthest behind has the most to tell. Strands of host
// memory have epochs that do not compare with the others', and fewer of them.
int furthest_behind(const StrandFailure* failures) {
  int found = -1;
  for (int i = 0; i < kAllStrands * kMostLanes; ++i) {
    if (i == kMostStrands * kMostLanes && found >= 0) break;
    if (state_of(failures[i]) == StrandFailure::kNone) continue;
    if (found < 0 || failures[i].expected_epoch < failures[found].expected_epoch) found = i;
  }
  return found;
}

std::string name_of_strand(int strand) {
  if (strand < kMostStrands) return join("CTA ", strand);
  return join("CTA ", strand - kMostStrands, " of what goes through host memory");
}

std::string name_of_wait(int operation) {
  if (operation == StrandFailure::kData) return "its wait for data";
  if (operation == StrandFailure::kEarlierEpoch) return "its wait for others to be done with an earlier part";
  return join("operation ", operation, " of its lane");
}

// By GateWay.
struct GateText {
  const char* where;
  const char* makes_another;
  const char* awaited;
};
constexpr GateText kGateTexts[kGateWays] = {
    {"a gate before or after copies", "makes another call",
     "to make the same call, or to have read this rank's buffer"},
    {"a send straight from buffer to buffer", "receives another message", "to have read this rank's buffer"},
    {"a receive straight from buffer to buffer", "sends another message", "to send"}};

constexpr const char* kBlockingHint =
    "; with CUDA_LAUNCH_BLOCKING set a launch lasts until the other ranks have made theirs, so those of one process "
    "need a thread each";

bool launches_block() {
  const char* const setting = std::getenv("CUDA_LAUNCH_BLOCKING");
  return setting != nullptr && *setting != '\0' && std::string_view(setting) != "0";
}

}  // namespace

KernelWatch::KernelWatch(CommunicatorState& state, Reports& reports, const WaitLimits& limits)
    : state_(state),
      reports_(reports),
      limits_(limits),
      long_wait_(limits.notice_seconds),
      looks_(kBetweenLooks, [this] { look(); }) {}

void KernelWatch::look_at_reports() {
  report_strands();
  report_messages();
  report_gates();
  state_.compare_calls();
}

void KernelWatch::look() {
  look_at_reports();
  state_.look_after_peers();
  notice_long_waits();
  if (state_.has_failed()) *static_cast<volatile uint32_t*>(&reports_.aborted) = 1;
}

// As hosts see it, who do not see kernels: a rank has not made a call. Messages do not show.
void KernelWatch::notice_long_waits() {
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

void KernelWatch::report_strands() {
  const int found = furthest_behind(reports_.strands);
  if (found < 0 || state_.has_failed()) return;
  const StrandFailure& failure = reports_.strands[found];
  const std::string who =
      join("rank ", state_.rank(), ", ", name_of_strand(found / kMostLanes), ", lane ", found % kMostLanes);
  const std::string where = name_of_wait(failure.operation);
  if (failure.state == StrandFailure::kOtherCall) {
    // Where the others' plans differ from this rank's, the signal may be of another one than this rank's plan says.
    const std::string whose = failure.peer == state_.rank() ? "another rank" : join("rank ", failure.peer);
    state_.abort(ErrorCode::kMismatch, join(who, ": ", whose, " makes another call at the same time (seen at ", where,
                                            "); ", state_.describe()));
    return;
  }
  time_out(join(who, " waited longer than PLAIT_TIMEOUT_SEC allows for rank ", failure.peer, " at ", where,
                ", in epoch ", failure.expected_epoch, "; the last that came was of epoch ", failure.seen_epoch));
}

void KernelWatch::report_messages() {
  const auto report = [&](const StrandFailure& failure, const char* what, const char* whom) {
    const uint32_t state = state_of(failure);
    if (state == StrandFailure::kNone || state_.has_failed()) return;
    const std::string who = join("rank ", state_.rank(), ", in ", what, " rank ", failure.peer);
    if (state == StrandFailure::kOtherSize) {
      state_.abort(ErrorCode::kMismatch, join(who, ": rank ", failure.peer, " sent a message of ", failure.seen_epoch,
                                              " bytes, and the receive is of ", failure.expected_epoch,
                                              " bytes; both ends must give the same size"));
      return;
    }
    time_out(join(who, ", waited longer than PLAIT_TIMEOUT_SEC allows for rank ", failure.peer, " to ", whom,
                  " (pieces awaited: ", failure.expected_epoch, ", come: ", failure.seen_epoch, ")"));
  };
  for (const StrandFailure& failure : reports_.receives) report(failure, "a receive from", "send");
  for (const StrandFailure& failure : reports_.sends) report(failure, "a send to", "receive");
}

void KernelWatch::report_gates() {
  for (int gate = 0; gate < kGates; ++gate) {
    const StrandFailure& failure = reports_.gates[gate];
    const uint32_t state = state_of(failure);
    if (state == StrandFailure::kNone || state_.has_failed()) continue;
    const GateText text = kGateTexts[gate / kMostDeviceRanks];
    const std::string who = join("rank ", state_.rank(), ", in ", text.where);
    if (state == StrandFailure::kOtherCall) {
      state_.abort(ErrorCode::kMismatch, join(who, ": rank ", failure.peer, ' ', text.makes_another,
                                              " at the same time; ", state_.describe()));
      continue;
    }
    time_out(join(who, ", waited longer than PLAIT_TIMEOUT_SEC allows for rank ", failure.peer, ' ', text.awaited,
                  " (signals awaited: ", failure.expected_epoch, ", come: ", failure.seen_epoch, ")"));
  }
}

void KernelWatch::time_out(const std::string& what) {
  const bool blocks = launches_block() && state_.process_sharing() != ProcessSharing::kNone;
  state_.abort(ErrorCode::kTimeout, join(what, "; ", state_.describe(), blocks ? kBlockingHint : ""));
}

}  // namespace plait
