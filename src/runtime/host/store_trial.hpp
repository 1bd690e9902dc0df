// Tries whether stores to shared memory are faster past the caches on this machine.
//
// The peer has read the memory that a rank is about to reuse. Where their cores have no cache in common but a distant
// one, an ordinary store takes each line back from the peer's cache, and costs ten times as much as one past the
// caches. Where they share a near cache (hardware threads of one core, which a virtual machine may show as two),
// ordinary stores are fast, and the peer reads from that cache what it otherwise reads from memory. Linux does not
// tell, in a virtual machine, so a rank tries both, and again now and then, since a virtual machine's cores move
// (docs/notes/cpu_shared_memory.md).
//
// A turn is one reuse of the memory: a slot of a FIFO, or a slice in a large room. A trial is kTrialTurns of ordinary
// stores and then as many past the caches. The first kWarmUpTurns of each are not timed: the memory is then as it was
// left by the other kind of store.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace plait {

class StoreTrial {
 public:
  static constexpr uint64_t kTrialTurns = 12;
  static constexpr uint64_t kWarmUpTurns = 6;
  // Another process may have kept this one's core busy in a trial, so that a close result is soon looked at again.
  // Where ordinary stores are far slower, trials are what costs most, and there are few.
  static constexpr uint64_t kTurnsBetweenTrials = 1024;
  static constexpr uint64_t kTurnsAfterFarFaster = 8192;
  // A reader gains from ordinary stores what the writer does not see. So they are given up only for more than this.
  static constexpr double kLeastGain = 2;
  static constexpr double kFarFaster = 4;

  void begin_turn() {
    if (++turn_ == next_trial_) turn_ = 0, best_ = {kNever, kNever};
    if (turn_ == 2 * kTrialTurns) conclude();
  }

  // Whether this turn's stores go past the caches.
  bool streams() const { return is_trial() ? turn_ >= kTrialTurns : streams_; }
  // Whether note() wants to know the times of this turn's stores.
  bool is_timed() const { return is_trial() && turn_ % kTrialTurns >= kWarmUpTurns; }
  // `amount`: of what was stored, in the same unit each time. The shortest time counts, since a rank may lose its core.
  void note(size_t amount, double seconds) {
    double& best = best_[streams()];
    best = std::min(best, seconds / static_cast<double>(std::max<size_t>(amount, 1)));
  }
  // Calls `store` in this turn, and times it if that is wanted.
  template <class Store>
  void time(size_t amount, const Store& store) {
    if (!is_timed()) return store();
    const auto start = std::chrono::steady_clock::now();
    store();
    note(amount, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  bool is_trial() const { return turn_ < 2 * kTrialTurns; }
  void conclude() {
    const auto [ordinary, streaming] = best_;
    const bool is_known = ordinary < kNever && streaming < kNever;
    if (is_known) streams_ = streaming * kLeastGain < ordinary;
    const bool is_far = is_known && streaming * kFarFaster < ordinary;
    next_trial_ = 2 * kTrialTurns + (is_far ? kTurnsAfterFarFaster : kTurnsBetweenTrials);
  }

  uint64_t turn_ = 2 * kTrialTurns, next_trial_ = turn_ + 1;  // the first begin_turn() begins a trial
  std::array<double, 2> best_ = {kNever, kNever};             // seconds an amount: of ordinary stores, and past caches
  bool streams_ = true;
};

}  // namespace plait
