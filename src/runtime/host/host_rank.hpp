// One rank of the host runtime: performs bound plans and exchanges messages on shared memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/settings.hpp"
#include "base/wait_limits.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/host/fork_mark.hpp"
#include "runtime/host/p2p.hpp"
#include "runtime/host/peers.hpp"
#include "runtime/host/reduce.hpp"
#include "runtime/host/segment.hpp"
#include "runtime/host/watch.hpp"
#include "runtime/waiting.hpp"

namespace plait {

class HostRank {
 public:
  struct Options {
    WaitLimits waits;
    WaitPolicy wait_policy = WaitPolicy::kAuto;
    bool crowded = false;  // ranks outnumber cores
  };

  HostRank(std::shared_ptr<Segment> segment, int rank, Peers peers, Options options);
  // Leaves as close() does, but at once, and logs what that would throw.
  ~HostRank();
  HostRank(const HostRank&) = delete;
  HostRank& operator=(const HostRank&) = delete;

  // Performs one call. Every rank performs the same calls in the same order. Throws kMismatch, kPeerFailed or kTimeout,
  // on every rank that still waits; after that the communicator is of no more use and every call throws the same.
  void run(const BoundPlan& bound, const Call& call, const void* input, void* output);

  // Sends and receives messages, which are as check_messages() wants them. Only the ranks that they name take part.
  // Throws as run() does.
  void exchange(std::span<const PeerMessage> messages);

  // Tells the others that this rank will make no more calls, also on GPUs, and makes sure that all have made the same:
  // waits a little for those who have not come to this rank's last calls, and throws as last_look.hpp says. It has left
  // also then. May be repeated.
  void close();

  // Throws what a call would throw at once: the failure that has ended the communicator, or kInvalidArgument in a
  // process that was forked from the rank's, and when it has left.
  void check_usable() const;

  // Called now and then while this rank waits, some 20 times a second: what it throws ends the call here, and the
  // communicator for all ranks. For interpreters that want to hear an interrupt.
  void set_interrupt_check(InterruptCheck check) { watch_.set_interrupt_check(std::move(check)); }

  // Ends all calls of all ranks, now and later, with this error. The first failure wins. Safe from any thread.
  void abort(ErrorCode code, const std::string& message);

 private:
  class QueueEngine;
  friend class QueueEngine;
  class CallWait;
  class QueueWait;
  class ScratchWait;
  enum class Progress { kNone, kSome, kDone };

  void run_slice(const BoundPlan& bound, const BoundSlice& slice, const Call& call, const std::byte* input,
                 std::byte* output);
  void look_at_cores(bool streams);
  int peers_on_this_core() const;
  void await_completion(uint64_t epoch, const Call& call);
  // Throws kMismatch where `peer`, which has completed what the stamp says, has made other calls than this rank.
  void compare_calls(int peer, uint64_t stamp) const;
  void leave(double timeout_seconds);

  // Calls step() until it says that all is done. As long as it says that nothing moved, waits, and now and then looks
  // for the reason, with the Wait that reason() gives.
  template <class Step, class Reason>
  void wait_for(Step step, Reason reason);

  std::shared_ptr<Segment> segment_;
  const int rank_;
  const int ranks_;
  Options options_;
  RankStatus& status_;
  Watch watch_;
  P2p p2p_;
  const ForkMark fork_mark_;
  uint64_t call_number_ = 0;
  uint64_t calls_ = 0;  // a fingerprint of all calls so far
  bool has_left_ = false;
  uint64_t epoch_ = 0;
  uint64_t stamps_[4] = {};           // of the last epochs that this rank is done with
  uint64_t everyone_completed_ = 0;   // the last epoch that every rank is known to be done with
  std::vector<std::byte*> bases_[2];  // by epoch parity, see bound_plan.hpp
  std::vector<std::byte*> signals_[2];
  std::vector<void*> pointers_;  // of the reduce at hand
  int core_ = -1;                // where this rank ran when its last call began
  bool shares_core_ = false;     // with a peer, as far as this rank has noticed
  bool one_core_ = false;        // all ranks ran on one core when this call began, which streams
  std::vector<int> next_;        // of every queue: its next operation
};

}  // namespace plait
