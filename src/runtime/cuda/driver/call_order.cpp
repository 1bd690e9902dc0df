#include "runtime/cuda/driver/call_order.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace plait {
namespace {

using Clock = std::chrono::steady_clock;

// The call orders of all communicators of this process.
struct Orders {
  std::mutex mutex;
  std::vector<const CallOrder*> all;
};

Orders& orders() {
  static Orders& all = *new Orders;  // never destroyed: static destructors of a program still make calls
  return all;
}

// Polls until `it` holds; returns false if it does not hold by the deadline.
template <class Condition>
bool wait_until(Clock::time_point deadline, const Condition& it) {
  while (!it()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace

std::shared_mutex CallOrder::launching;

CallOrder::CallOrder(int device) {
  const DeviceGuard guard(device);
  check_cuda(cudaEventCreateWithFlags(&last_call_, cudaEventDisableTiming), "an event");
  const std::scoped_lock lock(orders().mutex);
  orders().all.push_back(this);
}

CallOrder::~CallOrder() {
  {
    const std::scoped_lock lock(orders().mutex);
    std::erase(orders().all, this);
  }
  cudaEventDestroy(last_call_);
}

void CallOrder::finish() const {
  const RelaxedCapture relaxed;
  if (has_called_) check_cuda(cudaEventSynchronize(last_call_), "waiting for the last call");
}

bool CallOrder::is_done() const {
  if (!has_called_) return true;
  const cudaError_t state = cudaEventQuery(last_call_);
  if (state != cudaSuccess) cudaGetLastError();  // "not ready" is no error
  // If the GPU has failed or CUDA has shut down, nothing runs.
  return state != cudaErrorNotReady && state != cudaErrorStreamCaptureUnsupported;
}

bool CallOrder::none_runs() {
  const std::scoped_lock lock(orders().mutex);
  return std::all_of(orders().all.begin(), orders().all.end(), [](const CallOrder* it) { return it->is_done(); });
}

bool CallOrder::while_none_runs(std::chrono::milliseconds timeout, const std::function<void()>& act) {
  const RelaxedCapture relaxed;
  const Clock::time_point deadline = Clock::now() + timeout;
  std::unique_lock lock(launching, std::defer_lock);
  if (!wait_until(deadline, [&] { return lock.try_lock(); })) return false;
  if (!wait_until(deadline, none_runs)) return false;
  act();
  return true;
}

}  // namespace plait
