// The order of a communicator's calls on a GPU, whatever streams they are made on, and whether any call of this process
// is under way. What is captured has no part in either: it runs when its graph is launched, which nobody hears of.
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

  // `launch`es on `stream`, after the calls before. One thread at a time.
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
  // Waits until all are done.
  void finish() const;

  // For what makes all launches of this process wait until the GPU is idle: were a call under way, it could wait for
  // another rank, and that one for a call that is to be launched. Does `act` where none is, so that none begins before
  // it is done. Where one is, holds launches back for `timeout`, and then gives up: false. Any thread.
  static bool while_none_runs(std::chrono::milliseconds timeout, const std::function<void()>& act);

 private:
  static bool none_runs();
  bool is_done() const;
  // Unlike a handle, no other stream ever has it, and that of each thread that has cudaStreamPerThread is another.
  static unsigned long long number_of(cudaStream_t stream) {
    unsigned long long number = 0;
    check_cuda(cudaStreamGetId(stream, &number), "asking which stream it is");
    return number;
  }

  static std::shared_mutex launching;  // held by threads that launch a call

  cudaEvent_t last_call_ = nullptr;
  unsigned long long last_stream_ = 0;
  bool has_called_ = false;
};

}  // namespace plait
