// A communicator's end on a GPU: from a call to its plan, from the plan to its launch. Builds without CUDA have a
// stand-in that refuses (no_cuda_backend.cpp).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "plan/verifier.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/call.hpp"
#include "runtime/host/device_calls.hpp"
#include "runtime/peer_message.hpp"
#include "runtime/premul_scalar.hpp"
#include "topology/topology.hpp"
#include "tuner/choice.hpp"

namespace plait {

class DeviceBackend {
 public:
  // Collective over the ranks of `bootstrap`. Throws on all ranks where it fails on one.
  static std::unique_ptr<DeviceBackend> create(Bootstrap& bootstrap, int device, const Settings& settings,
                                               std::shared_ptr<Segment> segment, Peers peers, const Topology& topology);
  // Of all ranks of this process.
  static std::vector<std::unique_ptr<DeviceBackend>> in_process(std::span<const int> devices, const Settings& settings,
                                                                const std::shared_ptr<Segment>& segment,
                                                                const Topology& topology);

  virtual ~DeviceBackend() = default;
  // `scalar`: what this rank's input is multiplied by before the sum; may be null. What these two have started needs
  // more steps where they return false: see Communicator::start_enqueue().
  virtual bool start(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) = 0;
  virtual bool start(std::span<const PeerMessage> messages, std::span<void* const> streams) = 0;
  virtual bool advance() = 0;
  virtual const RankMachine& machine() const = 0;
  // See Communicator::give().
  virtual void give(std::shared_ptr<const VerifiedPlan> plan) = 0;
  virtual Choice choose(const Call& call) = 0;
  virtual const VerifiedPlan& plan_for(const Call& call) = 0;
  // Waits until the GPU is done with all calls but those of graphs. Throws kSystem where the GPU has failed.
  virtual void finish() = 0;
  // The failure record has what kernels reported by now. From any thread.
  virtual void look_at_reports() = 0;
  // Ends kernels that wait; the failure record says why.
  virtual void stop_waiting() = 0;
  virtual int device() const = 0;
  virtual size_t device_bytes() const = 0;
  virtual uint64_t zero_copy_calls() const = 0;
  virtual size_t mapped_buffers() const = 0;
};

}  // namespace plait
