#include "runtime/cuda/driver/free_when_idle.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/cuda/driver/call_order.hpp"
#include "runtime/cuda/driver/throttle.hpp"

namespace plait {
namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(20);
constexpr auto kTimeout = std::chrono::milliseconds(1);
constexpr int kMostWaiting = 8;  // per device

struct Freeing {
  int device = 0;
  std::function<void()> free;
};

// The memory that this process has yet to free, and a thread that exists as long as there is any.
class Waiting {
 public:
  // False: too many are waiting already, or no thread can be started.
  bool add(const Freeing& freeing) {
    const std::scoped_lock lock(mutex_);
    const auto is_of_device = [&](const Freeing& it) { return it.device == freeing.device; };
    if (std::count_if(all_.begin(), all_.end(), is_of_device) >= kMostWaiting) return false;
    if (!has_thread_) {
      try {
        std::thread([this] { run(); }).detach();
      } catch (const std::system_error&) {
        return false;
      }
      has_thread_ = true;
    }
    all_.push_back(freeing);
    return true;
  }

 private:
  void run() {
    Throttle throttle;
    for (Freeing* first = the_first(); first != nullptr; first = the_first()) {
      std::this_thread::sleep_for(kBetweenTries);
      // The previous device is not restored: that would create a context on another GPU.
      if (cudaSetDevice(first->device) != cudaSuccess) return;  // CUDA has shut down, and all memory is gone
      if (!CallOrder::while_none_runs(throttle.for_try(std::chrono::steady_clock::now()), first->free)) continue;
      throttle.reset();
      const std::scoped_lock lock(mutex_);
      all_.pop_front();
    }
  }

  // The address stays valid until the entry is removed.
  Freeing* the_first() {
    const std::scoped_lock lock(mutex_);
    has_thread_ = !all_.empty();
    return all_.empty() ? nullptr : &all_.front();
  }

  std::mutex mutex_;
  std::deque<Freeing> all_;
  bool has_thread_ = false;
};

Waiting& waiting() {
  static Waiting& all = *new Waiting;  // never destroyed: static destructors of a program still end communicators
  return all;
}

}  // namespace

void free_when_idle(int device, std::function<void()> free) {
  if (CallOrder::while_none_runs(kTimeout, free)) return;
  if (!waiting().add({device, free})) free();
}

}  // namespace plait
