// Takes calls that are staged from their arguments to the proxy.
#include "api/staged_backend.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "api/call_checks.hpp"
#include "api/choice_for.hpp"
#include "api/chunk_choice.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "runtime/hosts.hpp"
#include "runtime/message_layout.hpp"

namespace plait {
namespace {

constexpr size_t kWidestElement = 8;  // bytes; a chunk has one of each rank

}  // namespace

StagedBackend::StagedBackend(int device, std::vector<Communicator> lanes, const StagingHost& on_host,
                             const Settings& settings, std::unique_ptr<DeviceCalls> state, int size)
    : rank_(state->rank()),
      size_(size),
      chunk_bytes_(std::max(settings.staging_bytes, static_cast<size_t>(size) * kWidestElement)),
      host_(on_host),
      state_(std::move(state)),
      device_(staging_device(device, StagingPipeline::bytes_for(lanes.size(), chunk_bytes_))),
      pipeline_(*device_, lanes.size(), chunk_bytes_, rank_, on_host.waits) {
  for (Communicator& lane : lanes) lanes_.push_back({std::move(lane), nullptr});
  for (Lane& lane : lanes_) open(lane);
}

StagedBackend::~StagedBackend() = default;

// The failure of the communicator is in the memory of its ranks, where a lane that waits for others does not look.
void StagedBackend::pass_failure_to(Communicator& lane) const {
  if (const auto failure = state_->failure()) lane.abort(*failure);
}

void StagedBackend::open(Lane& lane) {
  lane.communicator.set_interrupt_check([this, &lane] { pass_failure_to(lane.communicator); });
  lane.proxy = std::make_unique<Proxy>([this](std::exception_ptr error) { end_with(std::move(error)); });
}

void StagedBackend::drive(std::vector<DrivenLane> lanes, const Settings& settings) {
  DrivenCalls::Hooks hooks;
  hooks.cut = [this](const Call& call) { return chunks_of(call); };
  hooks.tell = [this](const Error& error) { tell(error); };
  hooks.look = [this](Communicator& lane) { pass_failure_to(lane); };
  hooks.hear_interrupts = [this] { hear_interrupts(); };
  hooks.on_failure = [this](std::exception_ptr error) { end_with(std::move(error)); };
  driven_ = std::make_unique<DrivenCalls>(std::move(lanes), host_.tuner, settings, std::move(hooks));
}

void StagedBackend::run(const Call& call, const void* input, void* output, const Scalar* scalar) {
  throw_if_failed();
  if (!is_driven(call)) return DeviceBackend::run(call, input, output, scalar);
  try {
    run_driven(call, input, output, scalar);
  } catch (const Error&) {  // others wait for this rank
    leave_driven(std::current_exception());
    throw_if_failed();
    throw;
  } catch (...) {  // an interrupt is the caller's own
    leave_driven(std::current_exception());
    throw;
  }
}

// For the thread that makes calls.
void StagedBackend::hear_interrupts() const {
  if (!interrupt_check_) return;
  try {
    interrupt_check_();
  } catch (...) {
    state_->abort(ErrorCode::kPeerFailed, join("rank ", rank_, " was interrupted in a call that its CPU drove"));
    throw;
  }
}

void StagedBackend::leave_driven(std::exception_ptr error) {
  end_with(std::move(error));
  driven_->leave();
}

// After all earlier calls.
void StagedBackend::run_driven(const Call& call, const void* input, void* output, const Scalar* scalar) {
  finish();
  state_->announce(call);
  driven_->run(call, input, output, scalar);
  throw_if_failed();  // on another lane
}

bool StagedBackend::start(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) {
  throw_if_failed();
  StagedCall staged{call, ready_for(call).chunks, input, output};
  if (scalar != nullptr) staged.scalar = *scalar;
  staged.is_in_place = has_both_in_place(call, rank_, input, output);
  device_->begin(stream);
  pipeline_.number(staged);
  state_->announce(call);
  try {
    // First, for the copies may have to wait for it.
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      lanes_[lane].proxy->add([this, lane, staged] { perform(lane, staged); });
    }
    pipeline_.enqueue(staged);
    device_->end(stream);
  } catch (...) {
    end_with(std::current_exception());
    release(stream);
    throw_if_failed();  // as later calls will
    throw;
  }
  return true;
}

// After what a call has enqueued before it failed, so that its buffers may be freed once the stream is done.
void StagedBackend::release(void* stream) noexcept {
  try {
    device_->end(stream);
  } catch (...) {  // the GPU has failed, which the first error says
  }
}

bool StagedBackend::start(std::span<const PeerMessage> messages, std::span<void* const>) {
  fail(ErrorCode::kInvalidArgument, "rank ", rank_, ", ", to_text(messages.front()),
       ": messages between GPUs are for ranks of one host, and these are on ", host_.hosts.count(),
       "; copy it to host memory and call send and receive there");
}

bool StagedBackend::advance() { return true; }

void StagedBackend::give(std::shared_ptr<const VerifiedPlan> plan) {
  ready_.clear();
  drain();  // plans that lanes use may be forgotten
  for (Lane& lane : lanes_) lane.communicator.give(plan);
  if (driven_) driven_->give(plan);
}

const VerifiedPlan& StagedBackend::plan_for(const Call& call) {
  return call.is_blocking && is_driven(call) ? driven_->plan_for(call) : *ready_for(call).plan;
}

std::string StagedBackend::launch_for(const Call& call) {
  if (call.is_blocking && is_driven(call)) return "driven by the CPU, the GPU performs work requests";
  const CallChunks& chunks = ready_for(call).chunks;
  const Call first = chunks.call(0);
  return join("staged in host memory in ", counted(chunks.count(), "chunk"), " of ", message_bytes(first, size_),
              " bytes");
}

const StagedBackend::Ready& StagedBackend::ready_for(const Call& call) {
  return ready_.get(call, [&] {
    const CallChunks chunks = chunks_of(call);
    std::shared_ptr<const VerifiedPlan> plan = check_plan(chunks.call(0));
    if (chunks.count() > 1) check_plan(chunks.call(chunks.count() - 1));
    return Ready{chunks, std::move(plan)};
  });
}

// Chunks end at whole cache lines of each block, so they are cut a little longer than chosen, but never too long for
// their slots.
CallChunks StagedBackend::chunks_of(const Call& call) const {
  std::map<std::string, CostCurve> curves;  // by plan
  const size_t bytes = choose_chunk(message_bytes(call, size_), chunk_bytes_, lanes_.size(), [&](size_t chunk) {
    Query query = query_of(call, size_);
    query.bytes = chunk;
    const Choice choice = host_.tuner.choose(query);
    const auto [known, is_new] = curves.try_emplace(choice.plan.text());
    if (is_new) known->second = host_.tuner.cost(choice);
    return known->second.seconds(static_cast<double>(chunk));
  });
  const size_t blocks = has_rank_blocks(call.collective) ? static_cast<size_t>(size_) : 1;
  return CallChunks(call, size_, rank_, std::min(bytes + blocks * kChunkAlignment, chunk_bytes_));
}

// A lane will choose the same plan, and what it refuses ends the communicator. Here it ends the call alone.
std::shared_ptr<const VerifiedPlan> StagedBackend::check_plan(const Call& chunk) const {
  std::shared_ptr<const VerifiedPlan> plan = host_.tuner.plan(choice_for(host_.tuner, chunk).plan);
  bind(host_.performed(*plan), chunk, rank_, host_.limits);
  return plan;
}

void StagedBackend::perform(size_t lane, const StagedCall& call) {
  const auto on_host = [&](size_t i, const void* input, void* output) {
    throw_if_failed();
    try {
      lanes_[lane].communicator.run(call.chunks.call(i), input, output);
    } catch (const Error& error) {
      tell(error);
      throw;
    }
  };
  pipeline_.perform(call, lane, on_host, [this] { throw_if_failed(); });
}

// What a lane found says all.
void StagedBackend::tell(const Error& error) const {
  if (!state_->has_failed()) state_->abort(error.code(), error.what());
}

void StagedBackend::throw_if_failed() const {
  if (state_->has_failed()) throw *state_->failure();
}

void StagedBackend::drain() {
  for (const Lane& lane : lanes_) lane.proxy->drain();
}

void StagedBackend::close() {
  for (Lane& lane : lanes_) lane.communicator.close();
  if (driven_) driven_->close();
}

void StagedBackend::stop_waiting() {
  pipeline_.give_up();
  if (driven_) driven_->give_up();
}

void StagedBackend::finish() {
  drain();
  device_->finish();
}

void StagedBackend::poll_reports() {
  if (state_->has_failed()) return;
  try {
    device_->check();
  } catch (...) {
    end_with(std::current_exception());
  }
}

void StagedBackend::end_with(std::exception_ptr error) noexcept {
  const auto abort = [&](ErrorCode code, const char* why) {
    if (state_->has_failed()) return;
    state_->abort(code, join("rank ", rank_, " could not perform a call on its GPU: ", why));
  };
  try {
    std::rethrow_exception(std::move(error));
  } catch (const Error& it) {
    abort(it.code(), it.what());
  } catch (const std::exception& it) {  // out of memory
    abort(ErrorCode::kResources, it.what());
  } catch (...) {
    abort(ErrorCode::kInternal, "for no reason that is known");
  }
  stop_waiting();
}

}  // namespace plait
