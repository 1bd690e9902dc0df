#include "runtime/cuda/call_order.hpp"

#include <algorithm>
#include <vector>

namespace plait {
namespace {

// Those of this process. With `launching` locked for this thread alone.
std::vector<const CallOrder*>& orders() {
  static auto& all = *new std::vector<const CallOrder*>;  // for good: static destructors of a program still make calls
  return all;
}

}  // namespace

std::shared_mutex CallOrder::launching;

CallOrder::CallOrder(int device) {
  const DeviceGuard guard(device);
  check_cuda(cudaEventCreateWithFlags(&last_call_, cudaEventDisableTiming), "an event");
  const std::scoped_lock lock(launching);
  orders().push_back(this);
}

CallOrder::~CallOrder() {
  {
    const std::scoped_lock lock(launching);
    std::erase(orders(), this);
  }
  cudaEventDestroy(last_call_);
}

bool CallOrder::is_done() const {
  if (!has_called_) return true;
  const cudaError_t state = cudaEventQuery(last_call_);
  if (state != cudaSuccess) cudaGetLastError();  // that it is not done is no error
  return state != cudaErrorNotReady;
}

bool CallOrder::while_none_runs(const std::function<void()>& act) {
  const std::unique_lock lock(launching, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  if (!std::all_of(orders().begin(), orders().end(), [](const CallOrder* it) { return it->is_done(); })) return false;
  act();
  return true;
}

}  // namespace plait
