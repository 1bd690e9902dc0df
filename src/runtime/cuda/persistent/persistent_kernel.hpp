// The persistent kernel (NVG-36) is launched once, and performs calls that the host asks for in its work queue. It
// leaves when it is told to, has had nothing to do for a while, or has been there for long.
//
// It performs the very argument of an ordinary launch, with the same code and the same state of channels. So ranks need
// not agree who launches a call and who serves it, as long as all use the same shape.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/persistent/request.hpp"

namespace plait {

// The part of a kernel's argument that its end of a work queue needs.
struct QueueLaunch {
  HostQueue* host = nullptr;  // as this GPU addresses it
  DeviceQueue* device = nullptr;
  const uint32_t* aborted = nullptr;  // host memory; not 0 once the communicator has failed
  uint64_t number = 0;                // of this launch, from 1
  uint64_t first = 0;                 // the number of the first request that it takes
  // It leaves after so much time without a request, so that other kernels get its SMs. It also leaves after so much
  // time in all, between two requests: a program that always has another request would keep kernels out that need all
  // SMs.
  uint64_t idle_nanoseconds = 0, longest_nanoseconds = 0;
  // Longer than CTA 0 may go without passing on a command, even in a call whose waits all take as long as they may.
  uint64_t silent_nanoseconds = 0;
};

// The kernel's argument. Every CTA has kMostThreads threads.
struct PersistentLaunch : QueueLaunch {
  const RequestedCall* host_slots = nullptr;
  RequestedCall* slots = nullptr;  // in GPU memory
};

// The kernel, as cudaLaunchKernel takes it.
const void* persistent_kernel();

}  // namespace plait
