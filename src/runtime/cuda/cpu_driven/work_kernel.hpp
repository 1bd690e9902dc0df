// The kernel of CPU-driven plans (NVG-50): it is launched once, and performs the work requests that the CPU puts into
// its queue. It stays and leaves as the persistent kernel for blocking calls does (persistent_kernel.hpp).
//
// With one queue (the default), CTA 0 polls and hands each request on to the others, and the last one answers. With a
// queue for each CTA (NVG-38), there are as many launches of one CTA, each with a queue of its own: nobody hands on,
// and no CTA waits for another.
#pragma once

#include "runtime/cuda/persistent/persistent_kernel.hpp"
#include "runtime/work_request.hpp"

namespace plait {

// A queue's memory. Request n is in a slot that its word names, and in no other's until kCallSlots later ones came.
struct HostWork {
  HostQueue queue;
  WorkRequest requests[kCallSlots];
};
struct DeviceWork {
  DeviceQueue queue;
  WorkRequest requests[kCallSlots];
};

// The kernel's argument. Every CTA has kMostThreads threads, or fewer in tests.
struct WorkLaunch : QueueLaunch {
  const WorkRequest* host_requests = nullptr;
  WorkRequest* requests = nullptr;  // in GPU memory
  // The first CTA's share of each request, and into how many shares requests are divided (NVG-42).
  uint32_t first_share = 0, shares = 1;
};

// The kernel, as cudaLaunchKernel takes it.
const void* work_kernel();

}  // namespace plait
