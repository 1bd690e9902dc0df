// Moves the messages of a rank while it is in no call.
//
// Much of what a network does takes both ends: connections, large messages, answers. A rank that computes between two
// calls must not keep others waiting for it. So each has a thread that sleeps until its transport has something to do.
// In a call the rank moves its messages itself, which is faster, and the thread keeps out of its way.
#pragma once

#include <mutex>
#include <thread>

#include "base/wake_event.hpp"
#include "runtime/net/transport.hpp"

namespace plait {

class BackgroundProgress {
 public:
  // The transport outlives this object. Throws kResources if no thread can be started.
  explicit BackgroundProgress(Transport& transport);
  // In a forked child there is no thread, and this must not be called.
  ~BackgroundProgress();
  BackgroundProgress(const BackgroundProgress&) = delete;
  BackgroundProgress& operator=(const BackgroundProgress&) = delete;

  // A lock on the transport. Whoever uses the transport holds it.
  using Turn = std::unique_lock<std::mutex>;
  Turn take_turn() { return Turn(mutex_); }

 private:
  void run();
  // Waits until the transport has something to do, or this object ends: then it returns false.
  bool sleep(bool is_rank_in_call) const;
  // Moves what can be moved. Returns false, without doing so, if the rank is in a call.
  bool try_to_move();

  Transport& transport_;
  const WakeEvent end_;  // of this object
  std::mutex mutex_;
  std::thread thread_;
};

}  // namespace plait
