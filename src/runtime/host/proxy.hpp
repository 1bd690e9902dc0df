// The thread of a rank that does the CPU's part of calls on its GPU (NVG-54), in their order. After the first failure
// it does no more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/host/fork_mark.hpp"

namespace plait {

class Proxy {
 public:
  using Work = std::function<void()>;
  // Hears of the first error, on the thread. Throws nothing.
  using OnFailure = std::function<void(std::exception_ptr)>;

  // Throws kResources if no thread can be started.
  explicit Proxy(OnFailure on_failure);
  // Waits until all work is over.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  void add(Work work);
  // Waits until all work is over, well or not.
  void drain();
  // Waits for that so long. Returns whether all work is over.
  bool drain_within(std::chrono::nanoseconds time);

  // Whether the calling thread is that of a proxy.
  static bool is_current();

 private:
  void run();
  void perform(const Work& work);

  const OnFailure on_failure_;
  const ForkMark fork_mark_;
  bool has_failed_ = false;  // for the thread

  // The queue of work, with its thread. A forked child must leave all of it alone.
  struct Queue {
    std::mutex mutex;  // of the rest
    std::condition_variable changed;
    std::deque<Work> work;  // the first one is under way
    bool is_ending = false;
    std::thread thread;
  };
  std::unique_ptr<Queue> queue_;
};

}  // namespace plait
