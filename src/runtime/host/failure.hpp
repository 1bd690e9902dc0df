// The first failure that any rank of a communicator saw. It ends the communicator for all ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace plait {

// Lies in memory that all ranks share.
struct FailureRecord {
  enum State : uint32_t { kNone, kWriting, kSet };
  alignas(64) std::atomic<uint32_t> state{kNone};
  int32_t code = 0;
  int32_t reporter = -1;
  char message[1000] = {};

  bool is_set() const { return state.load(std::memory_order_acquire) != kNone; }
};

// The same as its reporter wrote it.
struct RecordedFailure {
  ErrorCode code = ErrorCode::kPeerFailed;
  int reporter = -1;  // -1: it died while it wrote
  std::string message;
};

// Records the failure, unless there is one already. Safe from any thread of any rank. Ranks of this host see it there;
// Segment::record_failure() also tells those of other hosts.
void set_failure(FailureRecord& record, ErrorCode code, int reporter, const std::string& message);
// No value while there is no failure.
std::optional<RecordedFailure> recorded_failure(const FailureRecord& record);
// Returns the failure, and names the rank that found it unless that is `reader`. No value while there is no failure.
std::optional<Error> failure_in(const FailureRecord& record, int reader);

}  // namespace plait
