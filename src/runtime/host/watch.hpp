// Handles long waits: hears of failures and interrupts, and finds the ranks that cause the wait.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/wait_limits.hpp"
#include "runtime/host/peers.hpp"
#include "runtime/host/segment.hpp"
#include "runtime/waiting.hpp"

namespace plait {

// A wait of this rank, as the search for its reason sees it. Used only if a wait is long.
class Wait {
 public:
  virtual ~Wait() = default;
  // Publishes on this rank's own status what it waits for.
  virtual void publish(RankStatus& status) const = 0;
  // Throws if another rank will never do what this wait needs. `long_wait`: long enough to look more closely.
  virtual void examine(bool long_wait) = 0;
  // The call or message in which this rank waits: "call 7, barrier".
  virtual std::string what() const = 0;
  // The place in it; may be empty.
  virtual std::string where() const = 0;
  // The ranks that it waits for.
  virtual std::vector<int> culprits() const = 0;
  // Whether somebody wants what it waits for. If nobody does, it may take any time.
  virtual bool is_wanted() const { return true; }
};

class Watch {
 public:
  Watch(std::shared_ptr<Segment> segment, int rank, Peers peers, const WaitLimits& limits);

  void set_interrupt_check(InterruptCheck check) { interrupt_check_ = std::move(check); }

  // Looks for the reason of a long wait: throws if there is one, and logs the wait when it becomes long.
  void look(WaitClock& clock, Wait& wait);

  // Calls the interrupt check, if it is due. Throws what the check throws.
  void hear_interrupts();

  void throw_if_failed() const {
    if (segment_->failure().is_set()) throw *segment_->failure_for(rank_);
  }
  // Ends the communicator for all ranks. The first failure wins and is thrown.
  [[noreturn]] void fail_all(ErrorCode code, const std::string& message) const;
  // The same, because `peer` has gone. `departure` says how it went, and `what` what this rank was doing.
  [[noreturn]] void fail_without(int peer, const char* departure, const std::string& what) const;

  // "rank 3 (process 77)".
  std::string named(int peer) const;
  // How a rank has gone, so that it does nothing any more; null if it has not gone.
  const char* departure(int peer) const;
  // The same in words, with the rank's last collective: "rank 3 (process 77) has died; of collectives, rank 3 …". Empty
  // if it has not gone.
  std::string account_of_departure(int peer) const;
  // On another host: its status tells only whether it has left.
  bool is_elsewhere(int peer) const { return peers_.is_elsewhere(peer); }
  bool is_stopped(int peer) const { return peers_.state(peer).starts_with("stopped"); }

 private:
  void hear_interrupts(const Wait& wait);
  std::string account_of(const Wait& wait) const;
  void follow_waits(std::vector<int>& culprits) const;
  std::string last_act(int peer) const;
  std::string last_exchange(int peer) const;

  std::shared_ptr<Segment> segment_;
  const int rank_;
  const int ranks_;
  const Peers peers_;
  const WaitLimits limits_;
  LongWait long_wait_;  // of the wait that look() examines
  InterruptCheck interrupt_check_;
  double interrupt_checked_ = 0;  // time of its last call
};

}  // namespace plait
