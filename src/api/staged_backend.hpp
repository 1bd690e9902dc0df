// A communicator's end on a GPU where CPUs perform calls, staged in host memory: all calls where ranks are on several
// hosts, and on one host those that kernels cannot perform (launched_or_staged.hpp). Copies, the network and shared
// memory in a host overlap (AWA-17, AWA-19).
//
// Its lanes are communicators of the same ranks, without GPUs. Each performs every n-th chunk, so that one chunk is on
// the network while another is combined.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/call_cache.hpp"
#include "api/communicator.hpp"
#include "api/device_backend.hpp"
#include "api/driven_calls.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/host/device_calls.hpp"
#include "runtime/host/proxy.hpp"
#include "runtime/host/staging_pipeline.hpp"
#include "runtime/staging_device.hpp"

namespace plait {

// The parts of a rank that calls on host memory use, to find out what the lanes will do.
struct StagingHost {
  Tuner& tuner;
  const Hosts& hosts;
  // What is performed in place of a plan: ranks that stand in for several nodes may be on one.
  std::function<const VerifiedPlan&(const VerifiedPlan&)> performed;
  BindLimits limits;
  StagingPipeline::Waits waits;
};

class StagedBackend final : public DeviceBackend {
 public:
  // `state` is that of the communicator: its failure ends the lanes, and theirs ends it. Throws kSystem or kResources
  // if the device cannot be used.
  StagedBackend(int device, std::vector<Communicator> lanes, const StagingHost& on_host, const Settings& settings,
                std::unique_ptr<DeviceCalls> state, int size);
  // Waits until all calls are over.
  ~StagedBackend() override;

  // From now on the CPU drives the GPU in blocking calls whose plan allows that. Throws what DrivenCalls() does.
  void drive(std::vector<DrivenLane> lanes, const Settings& settings);

  bool start(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) override;
  bool start(std::span<const PeerMessage> messages, std::span<void* const> streams) override;
  bool advance() override;
  void run(const Call& call, const void* input, void* output, const Scalar* scalar) override;
  void* stream_of_blocking_calls() override { return reinterpret_cast<void*>(uintptr_t{2}); }  // cudaStreamPerThread
  Tuner& tuner() override { return host_.tuner; }
  PlanLimits plan_limits() const override { return {}; }
  bool runs_on_host(const VerifiedPlan&) const override { return true; }
  void give(std::shared_ptr<const VerifiedPlan> plan) override;
  void set_interrupt_check(InterruptCheck check) override { interrupt_check_ = std::move(check); }
  const VerifiedPlan& plan_for(const Call& call) override;
  std::string launch_for(const Call& call) override;
  void finish() override;
  void close() override;
  void poll_reports() override;
  void throw_if_failed() const override;
  void stop_waiting() override;
  int device() const override { return device_->ordinal(); }
  size_t device_bytes() const override { return driven_ ? driven_->device_bytes() : 0; }
  uint64_t zero_copy_calls() const override { return 0; }
  uint64_t served_calls() const override { return driven_ ? driven_->calls() : 0; }
  size_t mapped_buffers() const override { return 0; }

 private:
  struct Lane {
    Communicator communicator;
    std::unique_ptr<Proxy> proxy;
  };
  // A call with everything decided but the buffers.
  struct Ready {
    CallChunks chunks;
    std::shared_ptr<const VerifiedPlan> plan;  // of the first chunk
  };

  void open(Lane& lane);
  void pass_failure_to(Communicator& lane) const;
  void tell(const Error& error) const;
  void hear_interrupts() const;
  bool is_driven(const Call& call) { return driven_ && driven_->drives(call); }
  // Ends the communicator, and waits until the GPU has left the buffers.
  void leave_driven(std::exception_ptr error);
  void run_driven(const Call& call, const void* input, void* output, const Scalar* scalar);
  void drain();
  const Ready& ready_for(const Call& call);
  CallChunks chunks_of(const Call& call) const;
  std::shared_ptr<const VerifiedPlan> check_plan(const Call& chunk) const;
  void perform(size_t lane, const StagedCall& call);
  void release(void* stream) noexcept;
  // Ends the communicator for all ranks, unless it has ended, and lets the GPU go on.
  void end_with(std::exception_ptr error) noexcept;

  const int rank_;
  const int size_;
  const size_t chunk_bytes_;
  StagingHost host_;
  const std::unique_ptr<DeviceCalls> state_;
  const std::unique_ptr<StagingDevice> device_;
  StagingPipeline pipeline_;
  CallCache<Ready> ready_;
  InterruptCheck interrupt_check_;
  std::unique_ptr<DrivenCalls> driven_;  // null: no call is driven
  std::vector<Lane> lanes_;              // last: their threads use the others
};

}  // namespace plait
