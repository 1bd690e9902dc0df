// Keeps a communicator's calls on a GPU in order across streams, and knows whether any call of this process is under
// way. Captured calls take no part in either: they run when their graph is launched, and the library does not see that.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "runtime/cuda/driver/driver.hpp"

namespace plait {

class CallOrder {
 public:
  explicit CallOrder(int device);
  ~CallOrder();
  CallOrder(const CallOrder&) = delete;
  CallOrder& operator=(const CallOrder&) = delete;

  // Calls `launch`, whose work on `stream` runs after all earlier calls. One thread at a time.
  template <class Launch>
  void next(cudaStream_t stream, Launch&& launch) {
    const std::shared_lock lock(launching);
    const unsigned long long number = number_of(stream);
    if (has_called_ && number != last_stream_) {
      check_cuda(cudaStreamWaitEvent(stream, last_call_, 0), "waiting for the last call's stream");
    }
    std::forward<Launch>(launch)();
    check_cuda(cudaEventRecord(last_call_, stream), "recording the call");
    last_stream_ = number;
    has_called_ = true;
  }
  // Calls `work`, which is over when it returns, once all earlier calls are done. One thread at a time.
  template <class Work>
  void at_once(Work&& work) {
    finish();
    const std::shared_lock lock(launching);
    has_called_ = false;
    std::forward<Work>(work)();
  }
  // Waits until all calls are done.
  void finish() const;

  // Runs `act` while no call of this process is under way, and keeps new calls from starting until it returns. It is
  // for CUDA functions that make all launches of the process wait until the GPU is idle. If a call were under way then,
  // it could wait for another rank, and that rank for a call that cannot be launched: a deadlock. While a call is under
  // way, this delays launches for up to `timeout`, then gives up and returns false. Any thread.
  static bool while_none_runs(std::chrono::milliseconds timeout, const std::function<void()>& act);

 private:
  static bool none_runs();
  bool is_done() const;
  // Unlike a handle, this number is never reused, and cudaStreamPerThread has a different one in each thread.
  static unsigned long long number_of(cudaStream_t stream) {
    unsigned long long number = 0;
    check_cuda(cudaStreamGetId(stream, &number), "asking which stream it is");
    return number;
  }

  static std::shared_mutex launching;  // held by threads that launch a call

  cudaEvent_t last_call_ = nullptr;
  unsigned long long last_stream_ = 0;
  bool has_called_ = false;  // so that a call may be under way
};

}  // namespace plait
