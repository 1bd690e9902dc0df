// The first failure that a rank of a communicator saw: it ends the communicator for all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace plait {

// In memory that all ranks share.
struct FailureRecord {
  enum State : uint32_t { kNone, kWriting, kSet };
  alignas(64) std::atomic<uint32_t> state{kNone};
  int32_t code = 0;
  int32_t reporter = -1;
  char message[1000] = {};

  bool is_set() const { return state.load(std::memory_order_acquire) != kNone; }
};

// Writes the failure, unless there is one. Safe from any thread of any rank.
void set_failure(FailureRecord& record, ErrorCode code, int reporter, const std::string& message);
// The failure, with who found it where that is not `reader`; none as long as all is well.
std::optional<Error> failure_in(const FailureRecord& record, int reader);

}  // namespace plait
