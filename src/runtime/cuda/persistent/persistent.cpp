#include "runtime/cuda/persistent/persistent.hpp"

#include <algorithm>
#include <new>

#include "base/error.hpp"
#include "runtime/cuda/driver/pdl.hpp"
#include "runtime/cuda/persistent/persistent_kernel.hpp"
#include "runtime/waiting.hpp"

namespace plait {
namespace {

// How long the kernel stays at most. To launch it again costs some microseconds, so this is rare enough.
constexpr std::chrono::nanoseconds kLongestStay = std::chrono::milliseconds(20);
// A CTA waits for earlier epochs, then for data.
constexpr double kWaitsOfCall = 2;
// The kernel's own waits fail first, and say more.
constexpr double kLaterSeconds = 1;

}  // namespace

PersistentCalls::PinnedRequests::PinnedRequests() {
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, sizeof(HostRequests), cudaHostAllocMapped | cudaHostAllocPortable),
             "memory for the work queue of the persistent kernel");
  requests_ = new (memory) HostRequests;
  void* mapped = nullptr;
  const cudaError_t error = cudaHostGetDevicePointer(&mapped, memory, 0);
  if (error != cudaSuccess) cudaFreeHost(memory);
  check_cuda(error, "mapping the work queue of the persistent kernel");
  on_device_ = static_cast<HostRequests*>(mapped);
}

PersistentCalls::PersistentCalls(const uint32_t* aborted, CommunicatorState& state, const WaitLimits& waits,
                                 Options options)
    : aborted_(aborted),
      state_(state),
      waits_(waits),
      options_(options),
      queue_(host_.get().queue, [this](uint64_t number, uint64_t first) { launch(number, first); }),
      slots_(host_.get().slots) {
  load_kernel(persistent_kernel());
}

PersistentCalls::~PersistentCalls() = default;

bool PersistentCalls::can_have(int ctas) {
  return ctas <= PreparedLaunch::resident_ctas(persistent_kernel(), kMostThreads);
}

bool PersistentCalls::can_perform(const PreparedLaunch& prepared) const {
  return prepared.is_two_shot_ll() && prepared.threads() == kMostThreads && prepared.ctas() <= options_.ctas;
}

void PersistentCalls::perform(PreparedLaunch& prepared, const void* input, void* output) {
  const uint64_t number = queue_.post(slots_.request_for(prepared, input, output));
  Backoff backoff(WaitPolicy::kAuto, false);
  WaitClock clock;
  while (!queue_.is_answered(number)) {
    if (!backoff.pause()) continue;
    clock.look();
    look_for_errors(clock.waited(), prepared.call());
  }
  ++calls_;
}

void PersistentCalls::finish() {
  const RelaxedCapture relaxed;
  let_leave();
  check_cuda(stream_.finish(), "waiting for the persistent kernel");
}

void PersistentCalls::launch(uint64_t number, uint64_t first) const {
  const RelaxedCapture relaxed;
  PersistentLaunch argument;
  argument.host = &host_.on_device()->queue;
  argument.device = &device_.get()->queue;
  argument.host_slots = host_.on_device()->slots;
  argument.slots = device_.get()->slots;
  argument.aborted = aborted_;
  argument.number = number;
  argument.first = first;
  argument.idle_nanoseconds = static_cast<uint64_t>(std::chrono::nanoseconds(options_.idle).count());
  argument.longest_nanoseconds = static_cast<uint64_t>(kLongestStay.count());
  argument.silent_nanoseconds = static_cast<uint64_t>(kWaitsOfCall * std::min(waits_.timeout_seconds, 1e6) * 1e9) +
                                argument.idle_nanoseconds + argument.longest_nanoseconds;
  launch_kernel(persistent_kernel(), dim3(static_cast<unsigned>(options_.ctas)), dim3(kMostThreads), &argument,
                stream_.get(), false, "launching the persistent kernel");
}

// The watchdog notices ranks that are gone and waits that a kernel has given up.
void PersistentCalls::look_for_errors(double waited_seconds, const Call& call) const {
  if (state_.has_failed()) throw *state_.failure();
  const RelaxedCapture relaxed;
  const cudaError_t stream = cudaStreamQuery(stream_.get());
  if (stream != cudaErrorNotReady) check_cuda(stream, "performing ", to_text(call), " by the persistent kernel");
  cudaGetLastError();  // "not ready" is no error
  if (waited_seconds <= waits_.timeout_seconds + kLaterSeconds) return;
  state_.abort(
      ErrorCode::kTimeout,
      join("rank ", state_.rank(),
           " waited longer than PLAIT_TIMEOUT_SEC allows for its persistent kernel to "
           "perform ",
           to_text(call), ", and that reports nothing: other kernels may keep it off the GPU; ", state_.describe()));
  throw *state_.failure();
}

}  // namespace plait
