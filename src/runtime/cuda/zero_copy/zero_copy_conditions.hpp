// The common part of all agreements on zero-copy. It has the conditions that a rank has to meet, a bound on its wait
// for the votes of others, and a line in the log that says why ranks did not agree.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>

#include "base/wait_limits.hpp"
#include "runtime/agreement.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/memory/peer_buffers.hpp"
#include "runtime/cuda/zero_copy/copy_engine_lock.hpp"

namespace plait {

// How long to wait for other ranks during a capture, which happens once and need not be fast.
inline constexpr std::chrono::nanoseconds kTimeoutInCapture = std::chrono::milliseconds(100);

class ZeroCopyConditions {
 public:
  // For the log: what is not zero-copy, whom this rank agrees with, and where.
  struct Words {
    const char* what = "a call";
    const char* others = "some rank";
    const char* where = "in this communicator";
  };
  // A rank that has proposed and then does not vote in time counts as failed. The log says why ranks did not agree, at
  // level info and once for each reason.
  ZeroCopyConditions(CommunicatorState& state, const Words& words, const WaitLimits& limits);

  ProcessSharing sharing() const { return sharing_; }
  // A function for Agreement::commit() to call while this rank waits for `whom`. It throws the error that ended the
  // communicator, and ends the communicator itself if this rank has waited too long.
  std::function<void()> poll_for(std::string whom) const;
  // Logs why something is not zero-copy.
  void note(const std::string& why);
  // Logs that some rank came too late to vote.
  void note_late();
  // Logs an outcome other than kAgreed; returns whether it is kAgreed.
  bool is_agreed(Agreement::Outcome outcome);
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
