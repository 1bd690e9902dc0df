#include "runtime/cuda/free_when_idle.hpp"

#include <cuda_runtime.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/cuda/call_order.hpp"

namespace plait {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr auto kLaunching = std::chrono::microseconds(100);
constexpr size_t kMostWaiting = 8;

struct Freeing {
  int device = 0;
  std::function<void()> free;

  bool try_now() const { return CallOrder::while_none_runs(free); }
};

// What waits, of this process, and a thread as long as anything does.
class Waiting {
 public:
  // False: there are too many.
  bool take(Freeing freeing) {
    const std::scoped_lock lock(mutex_);
    if (all_.size() >= kMostWaiting) return false;
    all_.push_back(std::move(freeing));
    if (all_.size() == 1) std::thread([this] { go_on(); }).detach();
    return true;
  }

 private:
  void go_on() {
    for (;;) {
      std::this_thread::sleep_for(kBetweenLooks);
      const Freeing first = the_first();
      // Never set back: that would make a context on another GPU.
      if (cudaSetDevice(first.device) != cudaSuccess || first.try_now()) {
        const std::scoped_lock lock(mutex_);
        all_.erase(all_.begin());
        if (all_.empty()) return;
      }
    }
  }

  Freeing the_first() {
    const std::scoped_lock lock(mutex_);
    return all_.front();
  }

  std::mutex mutex_;
  std::vector<Freeing> all_;
};

Waiting& waiting() {
  static Waiting& all = *new Waiting;  // for good: static destructors of a program still end communicators
  return all;
}

}  // namespace

void free_when_idle(int device, std::function<void()> free) {
  const Freeing freeing{device, std::move(free)};
  // Another thread may just be launching a call, which takes it some microseconds.
  for (int tries = 0; tries < 3; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(kLaunching);
    if (freeing.try_now()) return;
  }
  if (!waiting().take(freeing)) freeing.free();
}

}  // namespace plait
