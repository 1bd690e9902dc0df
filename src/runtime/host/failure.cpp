// Writes and reads the failure of a communicator.
#include "runtime/host/failure.hpp"

#include <cstring>
#include <ctime>

namespace plait {

void set_failure(FailureRecord& record, ErrorCode code, int reporter, const std::string& message) {
  uint32_t none = FailureRecord::kNone;
  if (!record.state.compare_exchange_strong(none, FailureRecord::kWriting, std::memory_order_acquire)) return;
  record.code = static_cast<int32_t>(code);
  record.reporter = reporter;
  std::strncpy(record.message, message.c_str(), sizeof(record.message) - 1);
  record.state.store(FailureRecord::kSet, std::memory_order_release);
}

std::optional<RecordedFailure> recorded_failure(const FailureRecord& record) {
  if (!record.is_set()) return std::nullopt;
  // Writing the record takes microseconds, unless the writer is killed meanwhile.
  for (int tries = 0; record.state.load(std::memory_order_acquire) == FailureRecord::kWriting; ++tries) {
    if (tries == 1000) {
      return RecordedFailure{ErrorCode::kPeerFailed, -1,
                             "another rank has given up this communicator and died while it wrote down why"};
    }
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
  }
  return RecordedFailure{static_cast<ErrorCode>(record.code), record.reporter, record.message};
}

std::optional<Error> failure_in(const FailureRecord& record, int reader) {
  const std::optional<RecordedFailure> failure = recorded_failure(record);
  if (!failure) return std::nullopt;
  const bool is_news = failure->reporter >= 0 && failure->reporter != reader;
  return Error(failure->code, failure->message + (is_news ? join(" (found by rank ", failure->reporter, ")") : ""));
}

}  // namespace plait
