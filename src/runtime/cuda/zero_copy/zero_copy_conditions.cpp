#include "runtime/cuda/zero_copy/zero_copy_conditions.hpp"

#include <optional>
#include <utility>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {

ZeroCopyConditions::ZeroCopyConditions(CommunicatorState& state, const Words& words, const WaitLimits& limits)
    : state_(state), sharing_(state.process_sharing()), words_(words), limits_(limits) {}

std::function<void()> ZeroCopyConditions::poll_for(std::string whom) const {
  return [this, whom = std::move(whom), deadline = std::optional<Deadline>()]() mutable {  // set by the first poll
    if (!deadline) deadline = Deadline::after(limits_.timeout_seconds);
    if (!state_.has_failed() && deadline->passed()) {
      state_.abort(ErrorCode::kTimeout,
                   join("rank ", state_.rank(), " waited longer than PLAIT_TIMEOUT_SEC allows for ", whom,
                        " to say whether buffers can be mapped; ", state_.describe()));
    }
    if (state_.has_failed()) throw *state_.failure();
  };
}

void ZeroCopyConditions::note_late() { note(join(words_.others, " did not come in time")); }

bool ZeroCopyConditions::is_agreed(Agreement::Outcome outcome) {
  switch (outcome) {
    case Agreement::Outcome::kAgreed:
      return true;
    case Agreement::Outcome::kRefused:
      note(join(words_.others, " cannot, or makes another call"));
      break;
    case Agreement::Outcome::kOutOfStep:
      note(join("one rank has captured what another one has not; from now on nothing ", words_.where, " is zero-copy"));
      break;
  }
  return false;
}

bool ZeroCopyConditions::can_be_mapped(const BufferPlace& place) {
  if (place.can_be_mapped) return true;
  note(place.memory_is_scarce
           ? "the GPU is short of memory, and CUDA does not release freed memory while others have it mapped"
           : "a buffer that others read is not memory of cudaMalloc on this GPU, or too many allocations are exported "
             "to other processes");
  return false;
}

// Copies between GPUs of one process can wait for more than their streams. On the legacy stream they start only when
// all work that was enqueued on either GPU is done. In graphs they can deadlock. Two graphs had 20 copies, each of
// which waited for one of the other graph, and some never started. It was as if all copies between two GPUs were in one
// queue, one graph's before the other's. Calls that are not captured are safe: they are enqueued once all ranks have
// come to the call, so behind everything that they could wait for.
bool ZeroCopyConditions::try_lock(CopyEngineLock& lock, cudaStream_t stream) {
  if (sharing_ == ProcessSharing::kAll) {
    if (stream == nullptr || stream == cudaStreamLegacy) {
      note("ranks of one process make it on the default stream, where copies between their GPUs wait for other work");
      return false;
    }
    if (is_captured(stream)) {
      note("ranks of one process have captured it, and copies of one graph could block those of another");
      return false;
    }
  }
  if (lock.try_lock()) return true;
  note("another communicator of this process has copies under way on this GPU, or captured some");
  return false;
}

void ZeroCopyConditions::note(const std::string& why) {
  if (!limits_.log.shows(LogLevel::kInfo) || !noted_.insert(why).second) return;
  limits_.log.info(words_.what, " is not zero-copy: ", why);
}

}  // namespace plait
