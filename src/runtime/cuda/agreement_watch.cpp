#include "runtime/cuda/agreement_watch.hpp"

#include <optional>

#include "base/deadline.hpp"
#include "base/error.hpp"

namespace plait {

AgreementWatch::AgreementWatch(CommunicatorState& state, const char* what, const Options& options)
    : state_(state), what_(what), options_(options) {}

std::function<void()> AgreementWatch::look() const {
  return [this, deadline = std::optional<Deadline>()]() mutable {  // from the first look on
    if (!deadline) deadline = Deadline::after(options_.timeout_seconds);
    if (!state_.has_failed() && deadline->passed()) {
      state_.abort(ErrorCode::kTimeout,
                   join("rank ", state_.rank(),
                        " waited longer than PLAIT_TIMEOUT_SEC allows for other ranks to say whether they can map each "
                        "other's buffers; ",
                        state_.describe()));
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
      note("not all ranks came to it in time");
      break;
    case Meetings::Outcome::kRefused:
      note("some rank cannot, or makes another call");
      break;
    case Meetings::Outcome::kOutOfStep:
      note("some rank captures calls that another one makes at once; none will be any more");
      break;
  }
  return false;
}

void AgreementWatch::note(const std::string& why) {
  if (!options_.log.shows(LogLevel::kInfo) || !noted_.insert(why).second) return;
  options_.log.info(what_, " does not go straight from buffer to buffer: ", why);
}

}  // namespace plait
