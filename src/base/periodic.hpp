// Does something again and again beside everything else, on a thread that sleeps in between.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace plait {

class Periodic {
 public:
  // Calls `act`, which must not throw, for the first time after one pause.
  Periodic(std::chrono::milliseconds pause, std::function<void()> act)
      : pause_(pause), act_(std::move(act)), thread_([this] { go_on(); }) {}
  // Returns when `act` is over, and it is not called again.
  ~Periodic() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    stopped_.notify_all();
    thread_.join();
  }
  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  void go_on() {
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, pause_, [&] { return stop_; })) act_();
  }

  const std::chrono::milliseconds pause_;
  const std::function<void()> act_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace plait
