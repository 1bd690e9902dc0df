// A communicator's end on a GPU where its ranks are on several hosts: calls are staged in host memory, and performed
// there by the same plans as calls on host memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/call_cache.hpp"
#include "api/device_backend.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/host/device_calls.hpp"
#include "runtime/host/host_rank.hpp"
#include "runtime/host/proxy.hpp"
#include "runtime/host/staging_pipeline.hpp"
#include "runtime/hosts.hpp"
#include "runtime/staging_device.hpp"

namespace plait {

// What a rank has for calls on host memory. While calls on the GPU are under way, only they use `host`.
struct StagingHost {
  HostRank& host;
  Tuner& tuner;
  const Hosts& hosts;
  BindLimits limits;
  StagingPipeline::Waits waits;
};

class StagedBackend final : public DeviceBackend {
 public:
  // Throws kSystem or kResources if the device cannot be used.
  StagedBackend(int device, const StagingHost& on_host, const Settings& settings, std::shared_ptr<Segment> segment,
                int rank, Peers peers);
  // Waits until all calls are over.
  ~StagedBackend() override;

  bool start(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) override;
  bool start(std::span<const PeerMessage> messages, std::span<void* const> streams) override;
  bool advance() override;
  Tuner& tuner() override { return host_.tuner; }
  PlanLimits plan_limits(const Settings& settings) const override;
  bool runs_plans_on_host() const override { return true; }
  void give(std::shared_ptr<const VerifiedPlan> plan) override;
  const VerifiedPlan& plan_for(const Call& call) override;
  std::string launch_for(const Call& call) override;
  void leave_host_alone() override { proxy_->drain(); }
  void finish() override;
  void poll_reports() override;
  void stop_waiting() override { pipeline_.give_up(); }
  int device() const override { return device_->ordinal(); }
  size_t device_bytes() const override { return 0; }
  uint64_t zero_copy_calls() const override { return 0; }
  size_t mapped_buffers() const override { return 0; }

 private:
  // A call with everything decided but the buffers.
  struct Ready {
    CallChunks chunks;
    std::shared_ptr<const VerifiedPlan> plan, last_plan;
    BoundPlan bound, last_bound;  // for each chunk, and for the last one
  };

  std::shared_ptr<const Ready> ready_for(const Call& call);
  std::shared_ptr<const Ready> make_ready(const Call& call) const;
  CallChunks chunks_of(const Call& call) const;
  std::shared_ptr<const VerifiedPlan> plan_of(const Call& chunk) const;
  void perform(const Ready& ready, const StagedCall& call);
  // Ends the communicator for all ranks, unless it has ended, and lets the GPU go on.
  void end_with(std::exception_ptr error) noexcept;

  const int rank_;
  const int size_;
  const size_t chunk_bytes_;
  StagingHost host_;
  DeviceCalls state_;
  std::unique_ptr<StagingDevice> device_;
  StagingPipeline pipeline_;
  CallCache<std::shared_ptr<const Ready>> ready_;
  std::unique_ptr<Proxy> proxy_;  // last: its thread uses the others
};

}  // namespace plait
