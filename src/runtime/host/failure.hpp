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

// Records the failure, unless there is one already. Safe from any thread of any rank.
void set_failure(FailureRecord& record, ErrorCode code, int reporter, const std::string& message);
// Returns the failure, and names the rank that found it unless that is `reader`. No value while there is no failure.
std::optional<Error> failure_in(const FailureRecord& record, int reader);

}  // namespace plait
