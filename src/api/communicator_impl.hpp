// The state of a communicator. Two files define its functions: make_communicator.cpp makes it with the other ranks, and
// communicator.cpp performs calls.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "api/adapted_calls.hpp"
#include "api/agreed_topology.hpp"
#include "api/call_cache.hpp"
#include "api/call_logger.hpp"
#include "api/calls_by_counts.hpp"
#include "api/communicator.hpp"
#include "api/device_backend.hpp"
#include "api/measured_network.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/host/control.hpp"
#include "runtime/host/host_rank.hpp"
#include "runtime/host/scale.hpp"
#include "runtime/hosts.hpp"
#include "runtime/reduce_device.hpp"
#include "tuner/tuner.hpp"

namespace plait {

struct Communicator::Impl {
  Impl(std::shared_ptr<Segment> segment, int own_rank, Peers peers, const Settings& own_settings, bool crowded,
       const AgreedTopology& topology, bool beside_gpus, const Hosts& all_hosts,
       std::unique_ptr<OtherNodes> other_nodes = nullptr);

  // Whether calls of this communicator are on GPUs.
  Tuner& main_tuner() { return device ? device->tuner() : tuner; }

  // Agrees with the other ranks on everything that must be equal, and maps the memory that they share.
  static std::unique_ptr<Impl> join_ranks(Bootstrap bootstrap, const Settings& settings, int device);
  // Calls on the GPU go through host memory, and are performed by `lanes`: all, or those that kernels cannot perform.
  // `driven`: a lane for each of `reduces`.
  void stage_on(int ordinal, std::vector<Communicator> lanes, std::vector<Communicator> driven = {});
  bool keeps_lanes();
  DeviceBackend& device_backend() const;

  void give(std::shared_ptr<const VerifiedPlan> plan);
  const VerifiedPlan& performed(const VerifiedPlan& plan);
  const BoundPlan& bound_for(const Call& call);
  const BoundPlan& bound_for(const CallByCounts& call);
  void warn_of_detour(const Communicator& lane) const;
  const BoundPlan& driven_bound_for(const Call& call);
  void run_on_host(const Call& call, const void* input, void* output, const Scalar* scalar);
  std::unique_ptr<AdaptedCalls> adapt_calls();
  void measure_network_later();
  void learn_network(const Call& call);
  void find_greatest(std::span<double> numbers, Call call);
  void check(const Call& call, const void* input, const void* output) const;
  void log_host_call(const Call& call, const void* input, const void* output);
  void log_device_call(const Call& call, const void* input, const void* output);
  void log_found();

  const int rank;
  const int size;
  const Settings settings;
  const Hosts hosts;
  const size_t shared_bytes;
  const BindLimits limits;
  const bool is_crowded;
  const std::shared_ptr<Segment> shared;
  std::unique_ptr<Control> control;  // none where all ranks are on one host
  HostRank host;
  Products products;
  std::unique_ptr<DeviceCalls> staged_calls;           // until there are lanes; none if there will be none
  std::vector<std::unique_ptr<ReduceDevice>> reduces;  // until there are lanes
  std::unique_ptr<DeviceBackend> device;               // none where buffers are in host memory only

  Tuner tuner;
  std::map<const VerifiedPlan*, VerifiedPlan> on_this_node;  // plans over several nodes that this host stands in for
  std::unique_ptr<AdaptedCalls> adapted;                     // none where the tuner's choice stays
  std::unique_ptr<MeasuredNetwork> network;                  // until it is measured; none where it is not to be
  CallCache<BoundPlan> bound, driven_bound;
  CallsByCounts by_counts;
  CallLogger host_log, device_log;
};

}  // namespace plait
