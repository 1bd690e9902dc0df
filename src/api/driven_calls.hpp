// Blocking calls over several hosts in which the CPU drives the GPU (NVG-54).
//
// An all-reduce is the CPU's to reduce where it is short: by recursive doubling (NVG-64). A longer one goes round the
// ring of groups, cut into chunks (NVG-62). Other collectives have the plan that the tuner chooses (NVG-61, NVG-97),
// with its messages between host slots (plan/through_host.hpp). So has a pinned algorithm (NVG-96). Beyond a limit all
// are staged, which is faster.
//
// Each lane performs every n-th chunk: a communicator of the same ranks, a work queue of the GPU, and a thread, which
// is the paper's proxy. So one chunk is on the network while the GPU sums another. Where ranks have blocks of their
// own, the first lane performs all: a part of every block is no call on memory that holds whole blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/call_cache.hpp"
#include "api/communicator.hpp"
#include "runtime/call_chunks.hpp"
#include "runtime/host/proxy.hpp"
#include "runtime/reduce_device.hpp"
#include "tuner/tuner.hpp"

namespace plait {

// What a lane is made from.
struct DrivenLane {
  Communicator communicator;  // without a GPU; these calls are its only ones
  std::unique_ptr<ReduceDevice> gpu;
};

class DrivenCalls {
 public:
  struct Hooks {
    std::function<CallChunks(const Call&)> cut;  // into the chunks that are best
    std::function<void()> hear_interrupts;       // for the thread that makes calls; throws the interrupt
    // Any thread:
    std::function<void(Communicator&)> look;             // ends a lane if the calls have failed elsewhere
    std::function<void(const Error&)> tell;              // the other ranks, of what a lane found
    std::function<void(std::exception_ptr)> on_failure;  // hears of the first error of a thread of a lane
  };

  // `tuner` is that of the communicator. Throws what ReduceDevice::map_host() does, and kResources if there are no more
  // threads.
  DrivenCalls(std::vector<DrivenLane> lanes, Tuner& tuner, const Settings& settings, Hooks hooks);
  DrivenCalls(const DrivenCalls&) = delete;
  DrivenCalls& operator=(const DrivenCalls&) = delete;

  // Whether the CPU drives this call. All ranks say the same: what this looks at is equal on them.
  bool drives(const Call& call) { return ready_for(call).has_value(); }
  // The plan of a call that it drives.
  const VerifiedPlan& plan_for(const Call& call) { return *ready_for(call)->plan; }
  // Performs a call that it drives. `scalar` multiplies the input before. Throws what Communicator::run() throws; then
  // leave() ends the calls for good.
  void run(const Call& call, const void* input, void* output, const Scalar* scalar);
  // After a failure of which the hooks' `look` knows: waits until the lanes and the GPU have left the buffers.
  void leave();
  // The GPU takes no more requests. Any thread.
  void give_up() noexcept;

  void give(const std::shared_ptr<const VerifiedPlan>& plan);
  void close();
  uint64_t calls() const { return calls_; }
  size_t device_bytes() const;

 private:
  struct Lane : DrivenLane {
    std::unique_ptr<Proxy> proxy;  // none: the thread that makes calls
  };
  // A call with everything decided but the buffers.
  struct Ready {
    CallChunks chunks;
    std::shared_ptr<const VerifiedPlan> plan;
  };

  const std::optional<Ready>& ready_for(const Call& call);
  std::optional<Ready> prepare(const Call& call);
  bool is_short(const Call& call) const;
  std::optional<Ready> with_plan(const Call& call, std::shared_ptr<const VerifiedPlan> plan);
  std::shared_ptr<const VerifiedPlan> plan_named(const char* algorithm);
  std::shared_ptr<const VerifiedPlan> plan_of_tuner(const Call& call);
  std::shared_ptr<const VerifiedPlan> known(const std::string& name, const std::function<Plan()>& make);
  CallChunks cut(const Call& call) const;
  bool has_room(const Call& chunk);
  const void* prepared_input(const Call& call, const VerifiedPlan& plan, const void* input, void* output,
                             const Scalar* scalar) const;
  void perform(size_t lane, const Ready& ready, const std::byte* input, std::byte* output);
  void await_lanes();
  void drain();

  Tuner& tuner_;
  const size_t cpu_reduce_bytes_, most_bytes_;
  const Hooks hooks_;
  CallCache<std::optional<Ready>> ready_;
  std::map<std::string, std::shared_ptr<const VerifiedPlan>> plans_;  // by name; null: not for these ranks
  uint64_t calls_ = 0;
  std::vector<Lane> lanes_;  // last: their threads use the others
};

}  // namespace plait
