// Makes communicators: alone, of the ranks of a process, and with ranks of other processes.
#include <unistd.h>

#include "api/agreed_topology.hpp"
#include "api/chosen_launch.hpp"
#include "api/communicator.hpp"
#include "api/communicator_impl.hpp"
#include "api/cores.hpp"
#include "api/handshake.hpp"
#include "api/lanes.hpp"
#include "api/launched_or_staged.hpp"
#include "api/live_machine.hpp"
#include "api/meet_over_network.hpp"
#include "api/meet_peers.hpp"
#include "api/plan_limits.hpp"
#include "api/staged_backend.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/log.hpp"
#include "runtime/host_identity.hpp"
#include "runtime/launch_environment.hpp"

namespace plait {
namespace {

// Pieces of scratch and whole outputs of these sizes or more are written past the caches
// (docs/notes/cpu_shared_memory.md).
constexpr size_t kStreamingScratchBytes = 8 << 10;
constexpr size_t kStreamingOutputBytes = 16 << 20;
constexpr int kMostRanksInProcess = 1024;

SegmentShape shape_for(int size, const Settings& settings) {
  return {size, host_scratch_bytes(settings), kHostSignals};
}

BindLimits limits_for(const SegmentShape& shape, const Hosts& hosts) {
  BindLimits limits;
  limits.messages = !hosts.are_one();
  limits.signal_stride = Segment::kSignalStride;
  limits.signal_payload = Segment::kSignalPayload;
  limits.scratch_bytes = shape.scratch_bytes;
  limits.signals = shape.signals;
  limits.small_scratch_bytes = small_scratch_bytes(shape.scratch_bytes);
  limits.small_signals = small_signals(shape.signals);
  limits.streaming_scratch_bytes = kStreamingScratchBytes;
  limits.streaming_output_bytes = kStreamingOutputBytes;
  return limits;
}

BootstrapOptions bootstrap_options(const Settings& settings, int rank, const InterruptCheck& interrupt_check) {
  return {{settings.bootstrap_timeout_seconds, Logger(settings.log_level, rank)}, interrupt_check};
}

}  // namespace

Communicator::Impl::Impl(std::shared_ptr<Segment> segment, int own_rank, Peers peers, const Settings& own_settings,
                         bool crowded, const AgreedTopology& topology, bool beside_gpus, const Hosts& all_hosts,
                         std::unique_ptr<OtherNodes> other_nodes)
    : rank(own_rank),
      size(segment->shape().ranks),
      settings(own_settings),
      hosts(all_hosts),
      shared_bytes(segment->shape().total_bytes()),
      limits(limits_for(segment->shape(), all_hosts)),
      is_crowded(crowded),
      shared(segment),
      host(
          std::move(segment), own_rank, std::move(peers),
          {{own_settings.timeout_seconds, Logger(own_settings.log_level, own_rank)}, own_settings.wait_policy, crowded},
          std::move(other_nodes)),
      tuner(host_machine(topology, own_settings), own_settings, host_plan_limits(own_settings), beside_gpus,
            &kSimulatedLaunches),
      host_log(Logger(own_settings.log_level, own_rank)),
      device_log(Logger(own_settings.log_level, own_rank)) {
  if (settings.adapt && size > 1) adapted = adapt_calls();
}

std::unique_ptr<Communicator::Impl> Communicator::Impl::join_ranks(Bootstrap bootstrap, const Settings& settings,
                                                                   int device) {
  const int rank = bootstrap.rank(), size = bootstrap.size();
  const std::string own_name = join("rank ", rank);
  const HostIdentity host = own_host(settings.host_id);
  const Hosts hosts = Hosts::meet(bootstrap, host);
  const std::vector<int> neighbours = hosts.ranks_of(hosts.node_of(rank));
  const SegmentShape shape = shape_for(size, settings);
  Handshake own = introduce(settings, device != kNoDevice);
  UniqueFd file;
  if (neighbours.front() == rank) {
    try_step(own.memory, own_name, [&] { file = Segment::create(shape, settings.shared_memory_directory); });
  }
  const std::vector<Handshake> all = bootstrap.all_gather(own);
  check_equal_settings(all);
  for (const Handshake& it : all) throw_failure(it.memory);
  Settings agreed = settings;
  agreed.staging_lanes = staging_lanes_of(all);

  std::unique_ptr<OtherNodes> others = meet_over_network(bootstrap, hosts, settings, device == kNoDevice);
  std::optional<Bootstrap> apart;
  if (!hosts.are_one()) apart = hosts.meet_on_host(bootstrap);
  Bootstrap& on_host = apart ? *apart : bootstrap;
  const UniqueFd shared = on_host.broadcast_descriptor(file.get());
  const Peers peers = meet_peers(on_host, hosts, rank, all);
  const AgreedTopology topology =
      agree_on_topology(bootstrap, settings, [&] { return live_view(host, device != kNoDevice); });
  std::unique_ptr<Impl> impl;
  StepResult joined;
  try_step(joined, own_name, [&] {
    impl =
        std::make_unique<Impl>(std::make_shared<Segment>(shape, shared), rank, peers, agreed,
                               is_machine_crowded(own, all), topology, device != kNoDevice, hosts, std::move(others));
    take_given_network(impl->tuner, hosts, settings);
    check_described_nodes(settings.topology, impl->tuner.machine().base.node_of, hosts);
    if (device != kNoDevice) DeviceBackend::check_device(device);
  });
  // No rank goes on before every rank has mapped the memory and said that it is present.
  throw_first_failure(bootstrap.all_gather(joined));
  if (device != kNoDevice && hosts.are_one()) {
    impl->device = DeviceBackend::create(bootstrap, device, settings, impl->shared, peers, topology);
    bootstrap.barrier();  // no call before every rank is ready for it
  }
  if (device != kNoDevice && !hosts.are_one() && settings.cpu_driven != CpuDriven::kOff) {
    // All hear of each, since the next one waits for the ranks of the host.
    for (int lane = 0; lane < agreed.staging_lanes; ++lane) {
      StepResult made;
      try_step(made, own_name,
               [&] { impl->reduces.push_back(DeviceBackend::reduce_device(on_host, neighbours, device, settings)); });
      throw_first_failure(bootstrap.all_gather(made));
    }
  }
  if (device != kNoDevice && impl->keeps_lanes()) {
    impl->staged_calls = std::make_unique<DeviceCalls>(impl->shared, rank, peers);
  }
  if (device == kNoDevice) impl->measure_network_later();  // lanes have tuners of their own
  impl->control = stay_in_touch(std::move(bootstrap), hosts, impl->shared, all);
  impl->log_found();
  return impl;
}

void Communicator::Impl::stage_on(int ordinal, std::vector<Communicator> lanes, std::vector<Communicator> driven) {
  const auto its_performed = [this](const VerifiedPlan& plan) -> const VerifiedPlan& { return performed(plan); };
  const StagingHost on_host{tuner, hosts, its_performed, limits, {settings.wait_policy, is_crowded}};
  auto staged =
      std::make_unique<StagedBackend>(ordinal, std::move(lanes), on_host, settings, std::move(staged_calls), size);
  if (!driven.empty()) {
    std::vector<DrivenLane> on_gpu;
    for (size_t lane = 0; lane < driven.size(); ++lane) {
      on_gpu.push_back({std::move(driven[lane]), std::move(reduces[lane])});
    }
    staged->drive(std::move(on_gpu), settings);
  }
  if (device) {
    device = std::make_unique<LaunchedOrStaged>(std::move(device), std::move(staged));
  } else {
    device = std::move(staged);
  }
}

// Once a communicator, where messages of GPUs shall go straight and cannot.
void Communicator::Impl::warn_of_detour(const Communicator& lane) const {
  if (rank != 0 || settings.gpu_messages != GpuMessages::kDirect || lane.network_reaches_gpus()) return;
  Logger(settings.log_level, rank)
      .warn(
          "PLAIT_GPU_MESSAGES=direct: the UCX of some rank moves no GPU memory, so messages go through host memory "
          "(`ucx_info -d` lists cuda_copy where it does; UCX_TLS may leave it out)");
}

// The same on all ranks, as settings and machine are.
bool Communicator::Impl::keeps_lanes() {
  if (!hosts.are_one()) return true;
  return settings.staged_plans || pins_plan_beyond(device->plan_limits(), device->tuner(), settings);
}

// Once a communicator.
void Communicator::Impl::log_found() {
  const Logger log(settings.log_level, rank);
  if (rank != 0 || !log.shows(LogLevel::kInfo)) return;
  std::string text = found_text(main_tuner().machine(), settings);
  if (!hosts.are_one()) text += join("; network: ", tuner.network().text());
  if (network) text += ", until it is measured before the first long call";
  log.info(text);
}

Communicator Communicator::from_environment(const Settings& settings, uint64_t sequence, int device,
                                            InterruptCheck interrupt_check) {
  const auto launched = detect_launch_environment();
  if (launched && launched->size > 1) {
    return create(launched->id(sequence), launched->rank, launched->size, settings, device, std::move(interrupt_check));
  }
  std::vector<Communicator> alone =
      device == kNoDevice ? in_process(1, settings) : in_process(std::span(&device, 1), settings);
  alone.front().set_interrupt_check(std::move(interrupt_check));
  return std::move(alone.front());
}

std::vector<Communicator> Communicator::in_process(int size, const Settings& settings, bool beside_gpus) {
  if (size < 1 || size > kMostRanksInProcess) {
    fail(ErrorCode::kInvalidArgument, "cannot make a communicator of ", counted(size, "rank"),
         " in one process; it has 1 to ", kMostRanksInProcess);
  }
  settings.check();
  const auto segment = std::make_shared<Segment>(shape_for(size, settings));
  const std::vector<cpu_set_t> cores(static_cast<size_t>(size), own_cores());
  const bool crowded = is_crowded(cores);
  Settings agreed = settings;
  if (agreed.staging_lanes == 0) agreed.staging_lanes = lanes_for(cores);
  const AgreedTopology topology = topology_in_process(size, settings, beside_gpus);
  std::vector<Communicator> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(Communicator(std::make_unique<Impl>(segment, rank, Peers(std::vector<int>(size, getpid())), agreed,
                                                        crowded, topology, beside_gpus, Hosts(size))));
  }
  return ranks;
}

std::vector<Communicator> Communicator::in_process(int size, const Settings& settings) {
  std::vector<Communicator> ranks = in_process(size, settings, false);
  ranks.front().impl_->log_found();
  return ranks;
}

std::vector<Communicator> Communicator::in_process(std::span<const int> devices, const Settings& settings) {
  const auto size = static_cast<int>(devices.size());
  std::vector<Communicator> ranks = in_process(size, settings, true);
  auto ends = DeviceBackend::in_process(devices, settings, ranks.front().impl_->shared,
                                        topology_in_process(size, settings, true));
  for (size_t rank = 0; rank < ends.size(); ++rank) ranks[rank].impl_->device = std::move(ends[rank]);
  if (!ends.empty() && ranks.front().impl_->keeps_lanes()) add_lanes(ranks, devices);
  ranks.front().impl_->log_found();
  return ranks;
}

Communicator Communicator::create(RendezvousPoint point, int size, const Settings& settings, int device,
                                  InterruptCheck interrupt_check) {
  settings.check();
  const BootstrapOptions options = bootstrap_options(settings, 0, interrupt_check);
  Communicator made(Impl::join_ranks(Bootstrap::lead(std::move(point), size, options), settings, device));
  made.add_lanes(device);
  made.set_interrupt_check(std::move(interrupt_check));
  return made;
}

Communicator Communicator::create(const UniqueId& id, int rank, int size, const Settings& settings, int device,
                                  InterruptCheck interrupt_check) {
  settings.check();
  const BootstrapOptions options = bootstrap_options(settings, rank, interrupt_check);
  Communicator made(Impl::join_ranks(Bootstrap::create(id, rank, size, options), settings, device));
  made.add_lanes(device);
  made.set_interrupt_check(std::move(interrupt_check));
  return made;
}

void Communicator::add_lanes(int device) {
  if (!impl_->staged_calls) return;
  std::vector<Communicator> lanes = make_lanes(*this, settings().staging_lanes);
  std::vector<Communicator> driven =
      make_lanes(*this, static_cast<int>(impl_->reduces.size()), settings().gpu_messages);
  if (!driven.empty()) impl_->warn_of_detour(driven.front());
  on_every_rank(*this, [&] { impl_->stage_on(device, std::move(lanes), std::move(driven)); });
}

void Communicator::add_lanes(std::vector<Communicator>& ranks, std::span<const int> devices) {
  const int count = ranks.front().settings().staging_lanes;
  const Settings settings = lane_settings(ranks.front(), count);
  std::vector<std::vector<Communicator>> lanes(ranks.size());
  for (int lane = 0; lane < count; ++lane) {
    std::vector<Communicator> made = in_process(static_cast<int>(ranks.size()), settings, true);
    for (size_t rank = 0; rank < ranks.size(); ++rank) lanes[rank].push_back(std::move(made[rank]));
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Impl& impl = *ranks[rank].impl_;
    impl.staged_calls =
        std::make_unique<DeviceCalls>(impl.shared, impl.rank, Peers(std::vector<int>(ranks.size(), getpid())));
    impl.stage_on(devices[rank], std::move(lanes[rank]));
  }
}

}  // namespace plait
