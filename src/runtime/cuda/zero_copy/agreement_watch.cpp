#include "runtime/cuda/zero_copy/agreement_watch.hpp"

#include <optional>
#include <utility>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {

AgreementWatch::AgreementWatch(CommunicatorState& state, const Words& words, const WaitLimits& limits)
    : state_(state), sharing_(state.process_sharing()), words_(words), limits_(limits) {}

std::function<void()> AgreementWatch::look(std::string whom) const {
  return [this, whom = std::move(whom), deadline = std::optional<Deadline>()]() mutable {  // from the first look on
    if (!deadline) deadline = Deadline::after(limits_.timeout_seconds);
    if (!state_.has_failed() && deadline->passed()) {
      state_.abort(ErrorCode::kTimeout,
                   join("rank ", state_.rank(), " waited longer than PLAIT_TIMEOUT_SEC allows for ", whom,
                        " to say whether buffers can be mapped; ", state_.describe()));
    }
    if (state_.has_failed()) throw *state_.failure();
  };
}

bool AgreementWatch::have_agreed(Meetings::Outcome outcome) {
  switch (outcome) {
    case Meetings::Outcome::kAgreed:
      return true;
    case Meetings::Outcome::kNotTried:
      break;
    case Meetings::Outcome::kLate:
      note(join(words_.others, " did not come to it in time"));
      break;
    case Meetings::Outcome::kRefused:
      note(join(words_.others, " cannot, or makes another call"));
      break;
    case Meetings::Outcome::kOutOfStep:
      note(join(words_.others,
                " captures what another rank makes at once, or the other way round; from then on nothing ",
                words_.where, " does"));
      break;
  }
  return false;
}

bool AgreementWatch::can_be_mapped(const BufferPlace& place) {
  if (place.can_be_mapped) return true;
  note(place.memory_is_scarce
           ? "little of the GPU's memory is left, and what others have mapped is not free as soon as it is freed"
           : "what others read is not memory of cudaMalloc on this GPU, or too many allocations are exported to "
             "processes");
  return false;
}

// Copies between GPUs of one process can wait for more than their streams. On the legacy stream they begin when all is
// done that was enqueued on either GPU. And of two graphs of 20 copies, each of which waits for one of the other graph,
// some never began, as though all copies between two GPUs were in one queue, one graph's before the other's. What is
// not captured is enqueued once all ranks have come to the call, so behind all that it could wait for.
bool AgreementWatch::can_lock(CopyEngineLock& lock, cudaStream_t stream) {
  if (sharing_ == ProcessSharing::kAll) {
    if (stream == nullptr || stream == cudaStreamLegacy) {
      note("ranks of one process make it on the default stream, where copies between their GPUs wait for too much");
      return false;
    }
    if (is_captured(stream)) {
      note("ranks of one process have captured it, and copies of one graph could hold up those of another");
      return false;
    }
  }
  if (lock.try_lock()) return true;
  note("another communicator of this process has copies under way on this GPU, or captured some");
  return false;
}

void AgreementWatch::note(const std::string& why) {
  if (!limits_.log.shows(LogLevel::kInfo) || !noted_.insert(why).second) return;
  limits_.log.info(words_.what, " does not go straight from buffer to buffer: ", why);
}

}  // namespace plait
