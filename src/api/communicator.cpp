// Communicators: from a call to its plan, from the plan to its run.
#include "api/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "algorithms/steps/arguments.hpp"
#include "api/agreed_topology.hpp"
#include "api/call_cache.hpp"
#include "api/call_checks.hpp"
#include "api/call_logger.hpp"
#include "api/calls_by_counts.hpp"
#include "api/choice_for.hpp"
#include "api/cores.hpp"
#include "api/device_backend.hpp"
#include "api/given_plan.hpp"
#include "api/handshake.hpp"
#include "api/lanes.hpp"
#include "api/live_machine.hpp"
#include "api/meet_over_network.hpp"
#include "api/meet_peers.hpp"
#include "api/plan_limits.hpp"
#include "api/staged_backend.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/log.hpp"
#include "plan/one_node.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/host/control.hpp"
#include "runtime/host/host_rank.hpp"
#include "runtime/host/scale.hpp"
#include "runtime/host_identity.hpp"
#include "runtime/hosts.hpp"
#include "runtime/launch_environment.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

// From these sizes on, pieces of scratch and whole outputs are written past the caches
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
  limits.streaming_scratch_bytes = kStreamingScratchBytes;
  limits.streaming_output_bytes = kStreamingOutputBytes;
  return limits;
}

BootstrapOptions bootstrap_options(const Settings& settings, int rank, const InterruptCheck& interrupt_check) {
  return {{settings.bootstrap_timeout_seconds, Logger(settings.log_level, rank)}, interrupt_check};
}

}  // namespace

struct Communicator::Impl {
  Impl(std::shared_ptr<Segment> segment, int own_rank, Peers peers, const Settings& own_settings, bool crowded,
       const AgreedTopology& topology, bool beside_gpus, const Hosts& all_hosts,
       std::unique_ptr<OtherNodes> other_nodes = nullptr)
      : rank(own_rank),
        size(segment->shape().ranks),
        settings(own_settings),
        hosts(all_hosts),
        shared_bytes(segment->shape().total_bytes()),
        limits(limits_for(segment->shape(), all_hosts)),
        is_crowded(crowded),
        shared(segment),
        host(std::move(segment), own_rank, std::move(peers),
             {{own_settings.timeout_seconds, Logger(own_settings.log_level, own_rank)},
              own_settings.wait_policy,
              crowded},
             std::move(other_nodes)),
        tuner(host_machine(topology, own_settings), own_settings, host_plan_limits(own_settings), beside_gpus),
        host_log(Logger(own_settings.log_level, own_rank)),
        device_log(Logger(own_settings.log_level, own_rank)) {}

  // Whether calls of this communicator are on GPUs.
  Tuner& main_tuner() { return device ? device->tuner() : tuner; }

  // Agrees with the other ranks on everything that must be equal, and maps the memory that they share.
  static std::unique_ptr<Impl> join_ranks(Bootstrap bootstrap, const Settings& settings, int device);
  // Calls on the GPU go through host memory, and are performed by `lanes`.
  void stage_on(int ordinal, std::vector<Communicator> lanes);
  DeviceBackend& device_backend() const;

  void give(std::shared_ptr<const VerifiedPlan> plan);
  const VerifiedPlan& performed(const VerifiedPlan& plan);
  const BoundPlan& bound_for(const Call& call);
  const BoundPlan& bound_for(const CallByCounts& call);
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
  std::unique_ptr<DeviceCalls> staged_calls;  // until there are lanes
  std::unique_ptr<DeviceBackend> device;      // none where buffers are in host memory only

  Tuner tuner;
  std::map<const VerifiedPlan*, VerifiedPlan> on_this_node;  // plans over several nodes that this host stands in for
  CallCache<BoundPlan> bound;
  CallsByCounts by_counts;
  CallLogger host_log, device_log;
};

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

  std::unique_ptr<OtherNodes> others = meet_over_network(bootstrap, hosts, settings);
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
        std::make_unique<Impl>(std::make_shared<Segment>(shape, shared), rank, peers, settings,
                               is_machine_crowded(own, all), topology, device != kNoDevice, hosts, std::move(others));
    check_described_nodes(settings.topology, impl->tuner.machine().base.node_of, hosts);
    if (device != kNoDevice) DeviceBackend::check_device(device);
    if (device != kNoDevice && !hosts.are_one()) {
      impl->staged_calls = std::make_unique<DeviceCalls>(impl->shared, rank, peers);
    }
  });
  // No rank goes on before every rank has mapped the memory and said that it is present.
  throw_first_failure(bootstrap.all_gather(joined));
  if (device != kNoDevice && hosts.are_one()) {
    impl->device = DeviceBackend::create(bootstrap, device, settings, impl->shared, peers, topology);
    bootstrap.barrier();  // no call before every rank is ready for it
  }
  impl->control = stay_in_touch(std::move(bootstrap), hosts, impl->shared, all);
  impl->log_found();
  return impl;
}

void Communicator::Impl::stage_on(int ordinal, std::vector<Communicator> lanes) {
  const StagingHost on_host{tuner, hosts, limits, {settings.wait_policy, is_crowded}};
  device = std::make_unique<StagedBackend>(ordinal, std::move(lanes), on_host, settings, std::move(staged_calls), size);
}

DeviceBackend& Communicator::Impl::device_backend() const {
  if (!device) {
    fail(ErrorCode::kInvalidArgument, "rank ", rank,
         ": this communicator was made without a GPU, so it takes no work on streams; name a device when you make it");
  }
  return *device;
}

void Communicator::Impl::give(std::shared_ptr<const VerifiedPlan> plan) {
  if (tuner.knows(plan->fingerprint())) return;
  const bool on_host = !device || device->runs_plans_on_host();
  check_given(*plan, size, device ? device->plan_limits(settings) : host_plan_limits(settings), !on_host);
  if (device) device->give(plan);
  if (!tuner.give(std::move(plan))) return;
  bound.clear();
  by_counts.forget();
  on_this_node.clear();
}

// Ranks that stand in for several nodes may be on one.
const VerifiedPlan& Communicator::Impl::performed(const VerifiedPlan& plan) {
  if (!hosts.are_one()) {
    check_nodes(plan.plan(), hosts);
    return plan;
  }
  if (!spans_nodes(plan.plan()) || plan.report().shape.has_messages_alone) return plan;
  const auto found = on_this_node.find(&plan);
  if (found != on_this_node.end()) return found->second;
  return on_this_node.emplace(&plan, verify(on_one_node(plan.plan()))).first->second;
}

const BoundPlan& Communicator::Impl::bound_for(const Call& call) {
  return bound.get(call,
                   [&] { return bind(performed(*tuner.plan(choice_for(tuner, call).plan)), call, rank, limits); });
}

const BoundPlan& Communicator::Impl::bound_for(const CallByCounts& it) {
  return by_counts.bound(it, [&] {
    return bind(performed(*tuner.plan(choice_for(tuner, it.call).plan)), it.call, rank, limits, it.blocks);
  });
}

void Communicator::Impl::check(const Call& call, const void* input, const void* output) const {
  check_kind(call, rank, size);
  const Plan* const given = call.plan == 0 ? nullptr : &tuner.given(call.plan).plan();
  if (given != nullptr) check_same_collective(*given, call.collective, call.root);
  check_buffers(call, rank, size, given, input, output);
}

// Once a communicator.
void Communicator::Impl::log_found() {
  const Logger log(settings.log_level, rank);
  if (rank == 0 && log.shows(LogLevel::kInfo)) log.info(found_text(main_tuner().machine(), settings));
}

void Communicator::Impl::log_host_call(const Call& call, const void* input, const void* output) {
  host_log.write(call, has_both_in_place(call, rank, input, output), [&] { return host_call_text(tuner, call); });
}

void Communicator::Impl::log_device_call(const Call& call, const void* input, const void* output) {
  const bool is_empty = call.count == 0 && call.collective != Collective::kBarrier;
  device_log.write(call, has_both_in_place(call, rank, input, output), [&] {
    return is_empty ? "nothing is launched" : gpu_call_text(device->tuner(), call, device->launch_for(call));
  });
}

namespace {

template <class Impl>
Impl& held(const std::unique_ptr<Impl>& impl) {
  if (!impl) fail(ErrorCode::kInvalidArgument, "this communicator was moved from; use the one that it was moved to");
  return *impl;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

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
  const bool crowded = is_crowded(std::vector<cpu_set_t>(size, own_cores()));
  const AgreedTopology topology = topology_in_process(size, settings, beside_gpus);
  std::vector<Communicator> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(Communicator(std::make_unique<Impl>(segment, rank, Peers(std::vector<int>(size, getpid())),
                                                        settings, crowded, topology, beside_gpus, Hosts(size))));
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
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].impl_->device = std::move(ends[rank]);
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
  if (device == kNoDevice || hosts().are_one()) return;
  std::vector<Communicator> lanes = make_lanes(*this);
  on_every_rank(*this, [&] { impl_->stage_on(device, std::move(lanes)); });
}

int Communicator::rank() const { return held(impl_).rank; }
int Communicator::size() const { return held(impl_).size; }
const Settings& Communicator::settings() const { return held(impl_).settings; }
const Hosts& Communicator::hosts() const { return held(impl_).hosts; }
const SegmentIdentity& Communicator::identity() const { return held(impl_).shared->identity(); }
size_t Communicator::shared_bytes() const { return held(impl_).shared_bytes; }
int Communicator::device() const { return held(impl_).device ? impl_->device->device() : kNoDevice; }
size_t Communicator::device_bytes() const { return held(impl_).device ? impl_->device->device_bytes() : 0; }

uint64_t Communicator::zero_copy_calls() const { return held(impl_).device ? impl_->device->zero_copy_calls() : 0; }
uint64_t Communicator::served_calls() const { return held(impl_).device ? impl_->device->served_calls() : 0; }
size_t Communicator::mapped_buffers() const { return held(impl_).device ? impl_->device->mapped_buffers() : 0; }

void Communicator::run(const Call& call, const void* input, void* output, const Scalar* scalar) {
  Impl& impl = held(impl_);
  impl.check(call, input, output);
  if (impl.host_log.shows()) [[unlikely]]
    impl.log_host_call(call, input, output);
  if (scalar == nullptr) {
    const BoundPlan& bound = impl.bound_for(call);
    if (!bound.plan->plan().in_place && has_both_in_place(call, impl.rank, input, output)) {
      const BufferBlock whole{0, input_elements(call, impl.size, impl.rank)};
      impl.host.run(bound, call, impl.by_counts.copy(call, {&whole, 1}, input), output);
      return impl.by_counts.release();
    }
    return impl.host.run(bound, call, input, output);
  }
  check_scalar_on_host(call, impl.rank, *scalar);
  const BoundPlan& bound = impl.bound_for(call);
  impl.host.check_usable();  // before an input in place is multiplied for nothing
  const size_t bytes = message_bytes(call, impl.size);
  impl.host.run(bound, call, impl.products.make(call, impl.rank, bytes, *scalar, input, output), output);
  impl.products.release();
}

void Communicator::run_by_counts(const CallByCounts& it, const void* input, void* output, const Scalar* scalar) {
  Impl& impl = held(impl_);
  const Call& call = it.call;
  check_kind(call, impl.rank, impl.size);
  if (scalar != nullptr) check_scalar_on_host(call, impl.rank, *scalar);
  const bool in_place = check_blocks(call, impl.size, impl.rank, it.blocks, input, output);
  if (impl.host_log.shows()) [[unlikely]]
    impl.host_log.write(call, in_place, [&] { return host_call_text(impl.tuner, call); });
  const BoundPlan& bound = impl.bound_for(it);
  impl.host.check_usable();  // before an input is copied or multiplied for nothing
  if (in_place && !bound.plan->plan().in_place) input = impl.by_counts.copy(call, it.blocks.input, input);
  const size_t bytes = extent(it.blocks.input) * size_of(call.type);
  if (scalar != nullptr) input = impl.products.make(call, impl.rank, bytes, *scalar, input, output);
  impl.host.run(bound, call, input, output);
  impl.products.release();
  impl.by_counts.release();
}

void Communicator::give(std::shared_ptr<const VerifiedPlan> plan) { held(impl_).give(std::move(plan)); }

bool Communicator::knows_plan(uint64_t fingerprint) const { return held(impl_).tuner.knows(fingerprint); }

void Communicator::run(std::shared_ptr<const VerifiedPlan> plan, const void* input, void* output, size_t count,
                       DataType type, ReduceOp op) {
  const Call call = call_by(*plan, type, op, count);
  give(std::move(plan));
  run(call, input, output);
}

void Communicator::exchange(std::span<const PeerMessage> messages) {
  Impl& impl = held(impl_);
  check_messages(messages, impl.rank, impl.size);
  if (impl.host_log.shows()) [[unlikely]]
    impl.host_log.write(messages, nullptr);
  impl.host.exchange(messages);
}

void Communicator::send(const void* data, size_t count, DataType type, int peer) {
  const PeerMessage message{PeerMessage::Kind::kSend, peer, type, count, const_cast<void*>(data)};
  exchange({&message, 1});
}

void Communicator::receive(void* data, size_t count, DataType type, int peer) {
  const PeerMessage message{PeerMessage::Kind::kReceive, peer, type, count, data};
  exchange({&message, 1});
}

void Communicator::enqueue(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) {
  bool is_enqueued = start_enqueue(call, input, output, stream, scalar);
  while (!is_enqueued) is_enqueued = advance();
}

void Communicator::enqueue_p2p(std::span<const PeerMessage> messages, std::span<void* const> streams) {
  bool is_enqueued = start_p2p(messages, streams);
  while (!is_enqueued) is_enqueued = advance();
}

bool Communicator::start_enqueue(const Call& call, const void* input, void* output, void* stream,
                                 const Scalar* scalar) {
  Impl& impl = held(impl_);
  DeviceBackend& device = impl.device_backend();
  impl.check(call, input, output);
  check_elements(call, impl.rank, input, output);
  if (scalar != nullptr) check_scalar(call, impl.rank, *scalar);
  if (impl.device_log.shows()) [[unlikely]]
    impl.log_device_call(call, input, output);
  if (stream != kBlockingStream) return device.start(call, input, output, stream, scalar);
  Call blocking = call;
  blocking.is_blocking = true;
  device.run(blocking, input, output, scalar);
  return true;
}

bool Communicator::start_p2p(std::span<const PeerMessage> messages, std::span<void* const> streams) {
  Impl& impl = held(impl_);
  DeviceBackend& device = impl.device_backend();
  check_messages(messages, impl.rank, impl.size);
  if (std::ranges::find(streams, kBlockingStream) != streams.end())
    fail(ErrorCode::kInvalidArgument, "rank ", impl.rank, ": messages on a GPU need a stream; only collectives block");
  if (impl.device_log.shows()) [[unlikely]]
    impl.device_log.write(messages, &device.tuner());
  return messages.empty() || device.start(messages, streams);
}

bool Communicator::advance() { return held(impl_).device_backend().advance(); }

void Communicator::finish() {
  if (held(impl_).device) impl_->device->finish();
}

void Communicator::close() {
  finish();
  impl_->host.close();
  if (impl_->control) impl_->control->leave();
  if (impl_->device) impl_->device->close();
}

std::optional<Error> Communicator::async_error() const {
  if (held(impl_).device) impl_->device->poll_reports();
  return impl_->shared->failure_for(impl_->rank);
}

const Topology& Communicator::topology() const { return held(impl_).main_tuner().machine().topology; }

std::vector<std::vector<int>> Communicator::groups() const {
  return groups_or_nodes(held(impl_).main_tuner().machine().base);
}

Tuner& Communicator::tuner() const { return held(impl_).main_tuner(); }

// If the communicator has GPUs, these describe calls on the GPU.
const VerifiedPlan& Communicator::plan_for(const Call& call) {
  Impl& impl = held(impl_);
  return impl.device ? impl.device->plan_for(call) : *impl.tuner.plan(choice_for(impl.tuner, call).plan);
}

std::string Communicator::reason_for(const Call& call) {
  Impl& impl = held(impl_);
  return choice_for(impl.main_tuner(), call).reason();
}

std::string Communicator::launch_for(const Call& call) { return held(impl_).device_backend().launch_for(call); }

void Communicator::abort(const Error& failure) { held(impl_).host.abort(failure.code(), failure.what()); }

void Communicator::abort(const std::string& reason) {
  held(impl_).host.abort(ErrorCode::kPeerFailed, join("rank ", impl_->rank, " aborted: ", reason));
  if (impl_->device) impl_->device->stop_waiting();
}

void Communicator::set_interrupt_check(InterruptCheck check) { impl_->host.set_interrupt_check(std::move(check)); }

}  // namespace plait
