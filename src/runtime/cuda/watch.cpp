// Looking after kernels.
#include "runtime/cuda/watch.hpp"

#include <atomic>
#include <chrono>

#include "base/error.hpp"

namespace plait {
namespace {

// Seldom enough to cost nothing, often enough that nobody spins long for a rank that is gone.
constexpr auto kBetweenLooks = std::chrono::milliseconds(20);

// Of memory that the GPU writes.
template <class T>
T read(const T& value) {
  return *static_cast<const volatile T*>(&value);
}

}  // namespace

Watch::Watch(CommunicatorState& state, const StrandFailure* failures, uint32_t* aborted)
    : state_(state), failures_(failures), aborted_(aborted), thread_([this] { look_on(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void Watch::look_on() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kBetweenLooks, [&] { return stop_; })) look();
}

void Watch::look() {
  for (int i = 0; i < kMostStrands * kMostLanes; ++i) {
    const StrandFailure& failure = failures_[i];
    const int strand = i / kMostLanes;
    const uint32_t state = read(failure.state);
    if (state == StrandFailure::kNone) continue;
    std::atomic_thread_fence(std::memory_order_acquire);
    const std::string where = failure.operation >= 0 ? join("operation ", failure.operation, " of the plan")
                              : failure.peer >= 0    ? std::string("the wait for an earlier call to be completed")
                                                     : std::string("the wait for packets");
    const std::string whom = failure.peer >= 0 ? join(" for rank ", failure.peer) : "";
    if (state == StrandFailure::kOtherCall) {
      state_.abort(ErrorCode::kMismatch, join("rank ", state_.rank(), " and rank ", failure.peer,
                                              " make different calls at the same time (seen by CTA ", strand, ", lane ",
                                              i % kMostLanes, " at ", where, "); ", state_.describe()));
    } else {
      state_.abort(ErrorCode::kTimeout,
                   join("rank ", state_.rank(), ": CTA ", strand, " waited too long", whom, ", lane ", i % kMostLanes,
                        " at ", where, " (epoch ", failure.expected_epoch, " expected, ", failure.seen_epoch,
                        " seen); ", state_.describe()));
    }
    break;
  }
  state_.look_after_peers();
  if (state_.has_failed()) *static_cast<volatile uint32_t*>(aborted_) = 1;
}

}  // namespace plait
