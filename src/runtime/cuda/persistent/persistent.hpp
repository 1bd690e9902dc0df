// Blocking calls by the persistent kernel: keeps its work queue, launches it when there is something to do, and waits
// for answers.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/wait_limits.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/driver/cleared_memory.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/kernels/prepared_launch.hpp"
#include "runtime/cuda/persistent/call_slots.hpp"
#include "runtime/cuda/persistent/request.hpp"
#include "runtime/cuda/persistent/request_queue.hpp"

namespace plait {

class PersistentCalls {
 public:
  struct Options {
    int ctas = 0;  // of the kernel, 1 to kMostChannels
    std::chrono::microseconds idle{};
  };

  // For the rank's current device. `aborted` is host memory as that device addresses it. Loads the kernel.
  PersistentCalls(const uint32_t* aborted, CommunicatorState& state, const WaitLimits& waits, Options options);
  // Only once the kernel has left (finish()).
  ~PersistentCalls();
  PersistentCalls(const PersistentCalls&) = delete;
  PersistentCalls& operator=(const PersistentCalls&) = delete;

  // Whether so many CTAs of the kernel can be on the current GPU at once.
  static bool can_have(int ctas);
  static size_t device_bytes() { return sizeof(DeviceRequests); }

  // Whether the kernel has the code and the CTAs for it.
  bool can_perform(const PreparedLaunch& prepared) const;
  // Performs a call, and returns when its result is there. Earlier calls must be done. One thread at a time. Throws the
  // error that ended the communicator, as it does if CUDA refuses to launch the kernel: the other ranks wait.
  void perform(PreparedLaunch& prepared, const void* input, void* output);

  uint64_t calls() const { return calls_; }  // that it has performed

  // Lets the kernel give its SMs back now. Does not wait for it.
  void let_leave() { queue_.let_leave(); }
  // Lets it leave, and waits for that.
  void finish();

 private:
  // Pinned.
  class PinnedRequests {
   public:
    PinnedRequests();
    ~PinnedRequests() { cudaFreeHost(requests_); }
    PinnedRequests(const PinnedRequests&) = delete;
    PinnedRequests& operator=(const PinnedRequests&) = delete;
    HostRequests& get() const { return *requests_; }
    HostRequests* on_device() const { return on_device_; }

   private:
    HostRequests* requests_ = nullptr;
    HostRequests* on_device_ = nullptr;
  };
  void launch(uint64_t number, uint64_t first) const;
  void look_for_errors(double waited_seconds, const Call& call) const;

  const uint32_t* const aborted_;
  CommunicatorState& state_;
  const WaitLimits waits_;
  const Options options_;
  OwnStream stream_;
  PinnedRequests host_;
  ClearedMemory<DeviceRequests> device_;
  RequestQueue<> queue_;
  CallSlots slots_;
  uint64_t calls_ = 0;
};

}  // namespace plait
