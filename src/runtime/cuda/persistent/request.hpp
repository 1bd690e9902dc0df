// The work queue of a persistent kernel (NVG-36 to NVG-41). In this memory a host asks a kernel that already runs to
// perform calls, and gets its answers.
//
//   host memory    requests ───► CTA 0, which alone polls across PCIe        answered ◄─── the CTA that finishes last
//   GPU memory                        commands ───► all other CTAs of the request
//
// Numbers count from 1 and only grow. Request n lies in entry n modulo kEntries; a host posts it once n - kEntries is
// answered. A command has the number of its request plus the number of launches before, since each launch passes on one
// command more: its last one, to leave. So no CTA takes a command of an earlier launch for one of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/kernels/two_shot_kernel.hpp"
#include "runtime/cuda/lowering/device_block.hpp"

namespace plait {

// The request of a host. It is one word of 64 bits together with its number, so that a poller sees both or neither: the
// number in the lower kCountBits, the request in the kTagBits above.
struct Request {
  // With TERMINATE (NVG-49) the kernel leaves. All other actions of the paper are steps of the call in the slot: its
  // plan says from where to where it reduces.
  bool terminates = false;
  bool is_new = false;  // the slot's call has not been asked for before, and lies in host memory only
  uint32_t slot = 0;    // below kCallSlots
  uint32_t ctas = 0;    // so many CTAs perform it, 1 to kMostChannels
};
inline constexpr uint32_t kCallSlots = 32;

namespace request_bits {
inline constexpr int kCtas = kCountBits, kSlot = kCtas + 7, kIsNew = kSlot + 5, kTerminates = kIsNew + 1;
static_assert(kMostChannels < 1 << 7 && kCallSlots == 1 << 5 && kTerminates < 64);
}  // namespace request_bits

PLAIT_HOST_DEVICE constexpr uint64_t word_of(const Request& request, uint64_t number) {
  return (number & kCountMask) | uint64_t{request.ctas} << request_bits::kCtas |
         uint64_t{request.slot} << request_bits::kSlot | uint64_t{request.is_new} << request_bits::kIsNew |
         uint64_t{request.terminates} << request_bits::kTerminates;
}
PLAIT_HOST_DEVICE constexpr Request request_in(uint64_t word) {
  return {(word >> request_bits::kTerminates & 1) != 0, (word >> request_bits::kIsNew & 1) != 0,
          static_cast<uint32_t>(word >> request_bits::kSlot) % kCallSlots,
          static_cast<uint32_t>(word >> request_bits::kCtas) % 128};
}
// How much later the word's number is than `number`: 0: it is this one; less than kLater: later; else: earlier.
PLAIT_HOST_DEVICE constexpr uint64_t lateness(uint64_t word, uint64_t number) { return (word - number) & kCountMask; }
inline constexpr uint64_t kLater = kCountMask / 2;

// A call, ready to be performed: what an ordinary launch has as its argument, and the kernel that it would launch.
struct alignas(32) RequestedCall {
  TwoShotLaunch launch;
  DataType type = DataType::kFloat32;
  CallKernel kernel = CallKernel::kTwoShotLl1Any;
};

// The queue in pinned host memory. Words that different sides write lie in different lines.
struct HostQueue {
  static constexpr uint64_t kEntries = 16;
  struct alignas(64) RequestEntry {
    uint64_t word = 0;
  };

  // Written by the host.
  RequestEntry requests[kEntries];
  // Written by the kernel: every request up to this number is done (NVG-40).
  alignas(64) uint64_t answered = 0;
  // Written by CTA 0, once and in this order, when it leaves: the number of the last request that it took, then the
  // number of its launch. It looks at no request after that.
  alignas(64) uint64_t taken = 0;
  uint64_t left = 0;
};

// The queue in GPU memory. CTA 0 writes commands.
struct DeviceQueue {
  HostQueue::RequestEntry commands[HostQueue::kEntries];
  alignas(64) uint32_t done[HostQueue::kEntries] = {};  // by entry: how many CTAs have performed their share
};

// All that is in host memory, which CTA 0 alone reads, and in GPU memory.
struct HostRequests {
  HostQueue queue;
  RequestedCall slots[kCallSlots];
};
struct DeviceRequests {
  DeviceQueue queue;
  RequestedCall slots[kCallSlots];
};

}  // namespace plait
