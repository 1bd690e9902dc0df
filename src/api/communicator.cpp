// Calls of a communicator: from a call to its plan, from the plan to its run.
#include "api/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

#include "algorithms/steps/arguments.hpp"
#include "api/call_checks.hpp"
#include "api/choice_for.hpp"
#include "api/communicator_impl.hpp"
#include "api/given_plan.hpp"
#include "api/meet_over_network.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/one_node.hpp"

namespace plait {

DeviceBackend& Communicator::Impl::device_backend() const {
  if (!device) {
    fail(ErrorCode::kInvalidArgument, "rank ", rank,
         ": this communicator was made without a GPU, so it takes no work on streams; name a device when you make it");
  }
  return *device;
}

void Communicator::Impl::give(std::shared_ptr<const VerifiedPlan> plan) {
  if (tuner.knows(plan->fingerprint())) return;
  const bool on_host = !device || device->runs_on_host(*plan);
  check_given(*plan, size, on_host ? host_plan_limits(settings) : device->plan_limits(), !on_host);
  if (device) device->give(plan);
  if (!tuner.give(std::move(plan))) return;
  bound.clear();
  driven_bound.clear();
  by_counts.forget();
  on_this_node.clear();
}

// Ranks that stand in for several nodes may be on one.
const VerifiedPlan& Communicator::Impl::performed(const VerifiedPlan& plan) {
  if (!hosts.are_one()) {
    check_nodes(plan.plan(), hosts);
    return plan;
  }
  const PlanShape& shape = plan.report().shape;
  if (!shape.spans_nodes || shape.has_messages_alone) return plan;
  const auto found = on_this_node.find(&plan);
  if (found != on_this_node.end()) return found->second;
  return on_this_node.emplace(&plan, verify(on_one_node(plan.plan()))).first->second;
}

const BoundPlan& Communicator::Impl::bound_for(const Call& call) {
  return bound.get(call,
                   [&] { return bind(performed(*tuner.plan(choice_for(tuner, call).plan)), call, rank, limits); });
}

// Signals carry no data there, since the CPU does not see it.
const BoundPlan& Communicator::Impl::driven_bound_for(const Call& call) {
  return driven_bound.get(call, [&] {
    BindLimits driven = limits;
    driven.host_apart = true;
    driven.signal_payload = 0;
    driven.small_scratch_bytes = 0;  // the GPU has mapped scratch of large rooms
    return bind(performed(*tuner.plan(choice_for(tuner, call).plan)), call, rank, driven);
  });
}

const BoundPlan& Communicator::Impl::bound_for(const CallByCounts& it) {
  return by_counts.bound(it, [&] {
    return bind(performed(*tuner.plan(choice_for(tuner, it.call).plan)), it.call, rank, limits, it.blocks);
  });
}

void Communicator::Impl::run_on_host(const Call& call, const void* input, void* output, const Scalar* scalar) {
  if (scalar == nullptr) {
    const BoundPlan& its = bound_for(call);
    if (!its.plan->plan().in_place && has_both_in_place(call, rank, input, output)) {
      const BufferBlock whole{0, input_elements(call, size, rank)};
      host.run(its, call, by_counts.copy(call, {&whole, 1}, input), output);
      return by_counts.release();
    }
    return host.run(its, call, input, output);
  }
  check_scalar_on_host(call, rank, *scalar);
  const BoundPlan& its = bound_for(call);
  host.check_usable();  // before an input in place is multiplied for nothing
  void* const may_hold = its.plan->plan().in_place ? output : nullptr;  // products in the output are a call in place
  host.run(its, call, products.make(call, rank, message_bytes(call, size), *scalar, input, may_hold), output);
  products.release();
}

// Those of the memory of this host, wherever other calls of the communicator are.
std::unique_ptr<AdaptedCalls> Communicator::Impl::adapt_calls() {
  AdaptedCalls::Hooks hooks;
  hooks.can_perform = [this](const Call& call, const VerifiedPlan& plan) {
    try {
      check_given(plan, size, host_plan_limits(settings), false);
      bound_for(call);
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResources) throw;
      return false;
    }
  };
  hooks.greatest = [this](std::span<double> numbers) {
    Call agreement;
    agreement.is_agreement = true;
    find_greatest(numbers, agreement);
  };
  hooks.clock = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const Logger log(rank == 0 ? settings.log_level : LogLevel::kWarn, rank);  // all ranks would say the same
  return std::make_unique<AdaptedCalls>(tuner, log, std::move(hooks));
}

// In a call of the library's own, which `call` says.
void Communicator::Impl::find_greatest(std::span<double> numbers, Call call) {
  call.collective = Collective::kAllReduce;
  call.type = DataType::kFloat64;
  call.op = ReduceOp::kMax;
  call.count = numbers.size();
  const std::vector<double> own(numbers.begin(), numbers.end());
  run_on_host(call, own.data(), numbers.data(), nullptr);
}

void Communicator::Impl::measure_network_later() {
  if (!measures_network(tuner, hosts, settings)) return;
  MeasuredNetwork::Hooks hooks;
  hooks.exchange = [this](const Call& call, int to, int from, size_t bytes) {
    return host.exchange_train(call, to, from, bytes);
  };
  hooks.greatest = [this](std::span<double> numbers) {
    Call agreement;
    agreement.is_agreement = agreement.measures_network = true;
    find_greatest(numbers, agreement);
  };
  const Logger log(rank == 0 ? settings.log_level : LogLevel::kWarn, rank);
  network = std::make_unique<MeasuredNetwork>(tuner, hosts, rank, log, std::move(hooks));
}

// Calls that were bound before may have other plans now, on all ranks alike.
void Communicator::Impl::learn_network(const Call& call) {
  network->measure(call);
  network.reset();
  bound.clear();
  by_counts.forget();
  host_log.forget();
}

void Communicator::Impl::check(const Call& call, const void* input, const void* output) const {
  check_kind(call, rank, size);
  const Plan* const given = call.plan == 0 ? nullptr : &tuner.given(call.plan).plan();
  if (given != nullptr) check_same_collective(*given, call.collective, call.root);
  check_buffers(call, rank, size, given, input, output);
}

void Communicator::Impl::log_host_call(const Call& call, const void* input, const void* output) {
  host_log.write(call, has_both_in_place(call, rank, input, output), [&] { return host_call_text(tuner, call); });
}

void Communicator::Impl::log_device_call(const Call& call, const void* input, const void* output) {
  device_log.write(call, has_both_in_place(call, rank, input, output), [&] {
    return is_empty(call) ? "nothing is launched" : gpu_call_text(device->tuner(), call, device->launch_for(call));
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
  if (impl.network && impl.network->is_wanted_for(call)) [[unlikely]]
    impl.learn_network(call);
  const auto perform = [&](const Call& it) {
    if (impl.host_log.shows()) [[unlikely]]
      impl.log_host_call(it, input, output);
    impl.run_on_host(it, input, output, scalar);
  };
  if (!impl.adapted || call.is_split) return perform(call);
  impl.adapted->run(call, std::ref(perform));
}

void Communicator::run(const Call& call, const void* input, void* output, ReduceDevice& device) {
  Impl& impl = held(impl_);
  impl.check(call, input, output);
  impl.host.run(impl.driven_bound_for(call), call, input, output, device);
}

bool Communicator::has_room_to_drive(const Call& call) {
  try {
    held(impl_).driven_bound_for(call);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResources) throw;
    return false;
  }
}

bool Communicator::network_reaches_gpus() const { return held(impl_).host.network_reaches_gpus(); }

std::shared_ptr<std::byte> Communicator::shared_memory() const {
  const std::shared_ptr<Segment>& segment = held(impl_).shared;
  return {segment, segment->memory().data()};
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

void Communicator::exchange(std::span<const PeerMessage> messages, const WantedCheck& is_wanted) {
  Impl& impl = held(impl_);
  check_messages(messages, impl.rank, impl.size);
  if (impl.host_log.shows()) [[unlikely]]
    impl.host_log.write(messages, nullptr);
  impl.host.exchange(messages, is_wanted);
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

std::string Communicator::departure(int rank) const {
  const Impl& impl = held(impl_);
  if (rank < 0 || rank >= impl.size)
    fail(ErrorCode::kInvalidArgument, "rank ", rank, " of ", counted(impl.size, "rank"), "; they are 0 to ",
         impl.size - 1);
  return rank == impl.rank ? "" : impl.host.departure(rank);
}

const Topology& Communicator::topology() const { return held(impl_).main_tuner().machine().topology; }

std::string Communicator::network() const {
  return held(impl_).hosts.are_one() ? "" : impl_->main_tuner().network().text();
}

std::vector<std::vector<int>> Communicator::groups() const {
  return groups_or_nodes(held(impl_).main_tuner().machine().base);
}

Tuner& Communicator::tuner() const { return held(impl_).main_tuner(); }

// If the communicator has GPUs, these describe calls on the GPU.
const VerifiedPlan& Communicator::plan_for(const Call& call) {
  Impl& impl = held(impl_);
  if (impl.device) return impl.device->plan_for(call);
  const auto adapted = impl.adapted ? impl.adapted->plan_in_use(call) : nullptr;
  return adapted ? *adapted : *impl.tuner.plan(choice_for(impl.tuner, call).plan);
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

void Communicator::set_interrupt_check(InterruptCheck check) {
  if (impl_->device) impl_->device->set_interrupt_check(check);
  impl_->host.set_interrupt_check(std::move(check));
}

}  // namespace plait
