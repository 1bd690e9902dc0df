// One rank of the host runtime: performs bound plans on shared memory, and finds out who is to blame when it waits
// too long.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/settings.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/host/fold.hpp"
#include "runtime/host/fork_mark.hpp"
#include "runtime/host/peers.hpp"
#include "runtime/host/segment.hpp"
#include "runtime/host/waiting.hpp"

namespace plait {

class HostRank {
 public:
  struct Options {
    double timeout_seconds = 60;
    WaitPolicy wait_policy = WaitPolicy::kAuto;
    bool crowded = false;  // ranks outnumber cores
  };

  HostRank(std::shared_ptr<Segment> segment, int rank, Peers peers, Options options);
  // Tells the others that this rank will make no more calls.
  ~HostRank();
  HostRank(const HostRank&) = delete;
  HostRank& operator=(const HostRank&) = delete;

  // Performs one call. Every rank performs the same calls in the same order. Throws kMismatch, kPeerFailed or kTimeout,
  // on every rank that still waits; after that the communicator is of no more use and every call throws the same.
  void run(const BoundPlan& bound, const Call& call, const void* input, void* output);

  // Called now and then while this rank waits, some 20 times a second: what it throws ends the call here, and the
  // communicator for all ranks. For interpreters that want to hear an interrupt.
  void set_interrupt_check(InterruptCheck check) { interrupt_check_ = std::move(check); }

  // Ends all calls of all ranks, now and later, with this error. The first failure wins. Safe from any thread.
  void abort(ErrorCode code, const std::string& message);

 private:
  class LaneEngine;
  friend class LaneEngine;
  class WaitClock;

  void run_slice(const BoundPlan& bound, const BoundSlice& slice, const Call& call, const std::byte* input,
                 std::byte* output);
  void look_at_cores(bool streams);
  int peers_on_this_core() const;
  void await_completion(uint64_t epoch, const Call& call);

  // Looks for a reason why a wait takes so long: throws if there is one. `where` says in words what is waited for; it
  // is asked only if that is needed.
  template <class Where>
  void examine(WaitClock& clock, const Call& call, const Where& where);
  void throw_if_failed() const;
  void hear_interrupts(const Call& call);
  void examine_peer(int peer, const Call& call);
  void compare_calls(int peer, uint64_t number);
  std::vector<int> culprits() const;
  [[noreturn]] void give_up(const Call& call, const std::string& where);
  [[noreturn]] void fail_all(ErrorCode code, const std::string& message);
  std::string last_act(int peer) const;

  std::shared_ptr<Segment> segment_;
  const int rank_;
  const int ranks_;
  Peers peers_;
  Options options_;
  RankBoard& board_;
  const ForkMark fork_mark_;
  uint64_t call_number_ = 0;
  uint64_t calls_ = 0;  // a fingerprint of all calls so far
  uint64_t epoch_ = 0;
  uint64_t everyone_completed_ = 0;   // the last epoch that every rank is known to be done with
  std::vector<std::byte*> bases_[2];  // by epoch parity, see bound_plan.hpp
  std::vector<std::byte*> signals_[2];
  std::vector<void*> pointers_;  // of the fold at hand
  int core_ = -1;                // where this rank ran when its last call began
  bool shares_core_ = false;     // with a peer, as far as this rank has noticed
  bool one_core_ = false;        // all ranks ran on one core when this call began, which streams
  InterruptCheck interrupt_check_;
  double interrupt_checked_ = 0;  // when it was last called
  std::vector<int> next_;         // of every lane: its next operation
};

}  // namespace plait
