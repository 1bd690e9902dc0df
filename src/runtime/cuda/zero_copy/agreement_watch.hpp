// What ranks that agree on something on the host have besides: an end of their timeout with each other, and a line in
// the log that says why they did not agree.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>

#include "base/wait_limits.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/memory/peer_buffers.hpp"
#include "runtime/cuda/zero_copy/copy_engine_lock.hpp"
#include "runtime/meetings.hpp"

namespace plait {

// With other ranks that capture: that is done once and need not be fast.
inline constexpr std::chrono::nanoseconds kTimeoutInCapture = std::chrono::milliseconds(100);

class AgreementWatch {
 public:
  // For the log: what it is that does not go straight from buffer to buffer, whom this rank agrees with, and where.
  struct Words {
    const char* what = "a call";
    const char* others = "some rank";
    const char* where = "in this communicator";
  };
  // A rank that has offered and then does not answer in time has failed. Why ranks did not agree is logged at level
  // info, once for each reason.
  AgreementWatch(CommunicatorState& state, const Words& words, const WaitLimits& limits);

  ProcessSharing sharing() const { return sharing_; }
  // For Offers::all_can(), while this rank waits for `whom`: throws what ended the communicator, also where it is this
  // rank's having waited for too long.
  std::function<void()> look(std::string whom) const;
  void note(const std::string& why);
  // The same of how a meeting ended, unless all have agreed; says whether they have.
  bool have_agreed(Meetings::Outcome outcome);
  // What this rank needs to be willing; else says why it is not.
  bool can_be_mapped(const BufferPlace& place);
  bool can_lock(CopyEngineLock& lock, cudaStream_t stream);

 private:
  CommunicatorState& state_;
  const ProcessSharing sharing_;
  const Words words_;
  const WaitLimits limits_;
  std::set<std::string> noted_;
};

}  // namespace plait
