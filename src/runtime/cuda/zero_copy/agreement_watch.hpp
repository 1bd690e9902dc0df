// The common part of all agreements on zero-copy: a bound on the wait for other ranks, the conditions that a rank has
// to meet, and a line in the log that says why ranks did not agree.
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

// How long to wait for other ranks during a capture, which happens once and need not be fast.
inline constexpr std::chrono::nanoseconds kTimeoutInCapture = std::chrono::milliseconds(100);

class AgreementWatch {
 public:
  // For the log: what is not zero-copy, whom this rank agrees with, and where.
  struct Words {
    const char* what = "a call";
    const char* others = "some rank";
    const char* where = "in this communicator";
  };
  // A rank that has made an offer and then does not answer in time counts as failed. The log says why ranks did not
  // agree, at level info and once for each reason.
  AgreementWatch(CommunicatorState& state, const Words& words, const WaitLimits& limits);

  ProcessSharing sharing() const { return sharing_; }
  // A function for Offers::all_can() to call while this rank waits for `whom`. It throws the error that ended the
  // communicator, and ends the communicator itself if this rank has waited too long.
  std::function<void()> look(std::string whom) const;
  // Logs why something is not zero-copy.
  void note(const std::string& why);
  // Logs a failed agreement; returns whether all ranks agreed.
  bool have_agreed(Meetings::Outcome outcome);
  // Conditions for this rank to be willing. If one is not met, they log why.
  bool can_be_mapped(const BufferPlace& place);
  bool try_lock(CopyEngineLock& lock, cudaStream_t stream);

 private:
  CommunicatorState& state_;
  const ProcessSharing sharing_;
  const Words words_;
  const WaitLimits limits_;
  std::set<std::string> noted_;
};

}  // namespace plait
