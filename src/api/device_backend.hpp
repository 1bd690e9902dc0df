// A communicator's end on a GPU: from a call to its plan, from the plan to its launch. Builds without CUDA have a
// stand-in that refuses (no_cuda_backend.cpp).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/agreed_topology.hpp"
#include "base/deadline.hpp"
#include "base/settings.hpp"
#include "plan/verifier.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/call.hpp"
#include "runtime/host/device_calls.hpp"
#include "runtime/peer_message.hpp"
#include "runtime/premul_scalar.hpp"
#include "runtime/reduce_device.hpp"
#include "runtime/staging_device.hpp"
#include "tuner/tuner.hpp"

namespace plait {

class DeviceBackend {
 public:
  // Throws kSystem, which says what to do, if this rank cannot use its device.
  static void check_device(int device);
  // Collective over the ranks of `bootstrap`. If it fails on one rank, it throws on all.
  static std::unique_ptr<DeviceBackend> create(Bootstrap& bootstrap, int device, const Settings& settings,
                                               std::shared_ptr<Segment> segment, Peers peers,
                                               const AgreedTopology& topology);
  // Makes the backends of all ranks of this process.
  static std::vector<std::unique_ptr<DeviceBackend>> in_process(std::span<const int> devices, const Settings& settings,
                                                                const std::shared_ptr<Segment>& segment,
                                                                const AgreedTopology& topology);

  // The device for calls over several hosts, with so many bytes of pinned host memory. Throws as check_device() does,
  // and kResources where there is not so much memory.
  static std::unique_ptr<StagingDevice> staging_device(int device, size_t bytes);

  // The device for calls over several hosts that the CPU drives. Collective over the ranks of `on_host`, which are
  // those of this host; `ranks`: their numbers in the communicator. If it fails on one rank, it throws on all of the
  // host or on that one.
  static std::unique_ptr<ReduceDevice> reduce_device(Bootstrap& on_host, std::vector<int> ranks, int device,
                                                     const Settings& settings);

  virtual ~DeviceBackend() = default;
  // `scalar`: this rank's input is multiplied by it before the sum; may be null. If they return false, the call needs
  // more steps: see Communicator::start_enqueue().
  virtual bool start(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) = 0;
  virtual bool start(std::span<const PeerMessage> messages, std::span<void* const> streams) = 0;
  virtual bool advance() = 0;
  // A blocking call (Call::is_blocking): after all earlier calls, and returns when its result is there. Where nothing
  // better is to be had it is launched.
  virtual void run(const Call& call, const void* input, void* output, const Scalar* scalar);
  // The stream on which it is launched then. Work on CUDA's default streams should not wait for it: a rank that shares
  // the GPU and this process would not come to its own call.
  virtual void* stream_of_blocking_calls() = 0;
  virtual Tuner& tuner() = 0;
  // The limits of plans that kernels perform, and whether a given one is performed by CPUs, on host memory.
  virtual PlanLimits plan_limits() const = 0;
  virtual bool runs_on_host(const VerifiedPlan&) const { return false; }
  // See Communicator::give().
  virtual void give(std::shared_ptr<const VerifiedPlan> plan) = 0;
  virtual const VerifiedPlan& plan_for(const Call& call) = 0;
  virtual std::string launch_for(const Call& call) = 0;
  // The check of Communicator::set_interrupt_check(), for calls that wait on the host.
  virtual void set_interrupt_check(InterruptCheck) {}
  // Waits until the GPU is done with all calls, except those of graphs. Throws kSystem if the GPU has failed.
  virtual void finish() = 0;
  // Leaves, after finish(); no call follows. Throws as Communicator::close().
  virtual void close() {}
  // Copies what kernels reported so far into the failure record. Any thread may call it.
  virtual void poll_reports() = 0;
  // Throws the failure that ended the communicator, if there was one.
  virtual void throw_if_failed() const = 0;
  // Ends kernels that wait; the failure record says why.
  virtual void stop_waiting() = 0;
  virtual int device() const = 0;
  virtual size_t device_bytes() const = 0;
  virtual uint64_t zero_copy_calls() const = 0;
  virtual uint64_t served_calls() const { return 0; }
  virtual size_t mapped_buffers() const = 0;
};

}  // namespace plait
