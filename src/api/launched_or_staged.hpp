// A communicator's end on a GPU of one host, where CPUs help: kernels perform the plans that they can, and lanes the
// others, staged in host memory as between hosts (staged_backend.hpp).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "api/call_cache.hpp"
#include "api/device_backend.hpp"
#include "api/staged_backend.hpp"

namespace plait {

// Whether the user pins an algorithm (PLAIT_ALGORITHM) whose plan exceeds what kernels perform. `tuner`: that of the
// kernels; it gives the same answer on all ranks.
bool pins_plan_beyond(const PlanLimits& kernels, Tuner& tuner, const Settings& settings);

// Calls of the two kinds are ordered by streams alone, as captured ones are; blocking calls come after all before them.
class LaunchedOrStaged final : public DeviceBackend {
 public:
  LaunchedOrStaged(std::unique_ptr<DeviceBackend> launched, std::unique_ptr<StagedBackend> staged)
      : launched_(std::move(launched)), staged_(std::move(staged)), limits_(launched_->plan_limits()) {}

  bool start(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) override;
  bool start(std::span<const PeerMessage> messages, std::span<void* const> streams) override;
  bool advance() override { return started_->advance(); }
  void run(const Call& call, const void* input, void* output, const Scalar* scalar) override;
  void* stream_of_blocking_calls() override { return launched_->stream_of_blocking_calls(); }
  Tuner& tuner() override { return launched_->tuner(); }
  PlanLimits plan_limits() const override { return limits_; }
  bool runs_on_host(const VerifiedPlan& plan) const override;
  void give(std::shared_ptr<const VerifiedPlan> plan) override;
  const VerifiedPlan& plan_for(const Call& call) override { return backend_for(call).plan_for(call); }
  std::string launch_for(const Call& call) override { return backend_for(call).launch_for(call); }
  void finish() override;
  void close() override;
  void poll_reports() override;
  void throw_if_failed() const override { launched_->throw_if_failed(); }
  void stop_waiting() override;
  int device() const override { return launched_->device(); }
  size_t device_bytes() const override { return launched_->device_bytes(); }
  uint64_t zero_copy_calls() const override { return launched_->zero_copy_calls(); }
  uint64_t served_calls() const override { return launched_->served_calls(); }
  size_t mapped_buffers() const override { return launched_->mapped_buffers(); }

 private:
  DeviceBackend& backend_for(const Call& call);
  bool is_staged(const Call& call);

  const std::unique_ptr<DeviceBackend> launched_;
  const std::unique_ptr<StagedBackend> staged_;
  const PlanLimits limits_;  // of kernels
  CallCache<bool> is_staged_;
  DeviceBackend* started_ = nullptr;
};

}  // namespace plait
