// Takes calls on GPUs of several hosts from their arguments to the proxy.
#include "api/staged_backend.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "api/call_checks.hpp"
#include "api/choice_for.hpp"
#include "api/chunk_choice.hpp"
#include "api/meet_over_network.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "runtime/message_layout.hpp"

namespace plait {
namespace {

constexpr size_t kWidestElement = 8;  // bytes; a chunk has one of each rank

}  // namespace

StagedBackend::StagedBackend(int device, const StagingHost& on_host, const Settings& settings,
                             std::shared_ptr<Segment> segment, int rank, Peers peers)
    : rank_(rank),
      size_(segment->shape().ranks),
      chunk_bytes_(std::max(settings.staging_bytes, static_cast<size_t>(size_) * kWidestElement)),
      host_(on_host),
      state_(std::move(segment), rank, std::move(peers)),
      device_(staging_device(device, StagingPipeline::bytes_for(chunk_bytes_))),
      pipeline_(*device_, chunk_bytes_, rank, on_host.waits),
      proxy_(std::make_unique<Proxy>([this](std::exception_ptr error) { end_with(std::move(error)); })) {}

StagedBackend::~StagedBackend() = default;

bool StagedBackend::start(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) {
  if (state_.has_failed()) throw *state_.failure();
  const std::shared_ptr<const Ready> ready = ready_for(call);
  StagedCall staged{call, ready->chunks, input, output};
  if (scalar != nullptr) staged.scalar = *scalar;
  staged.is_in_place = has_both_in_place(call, rank_, input, output);
  device_->begin(stream);
  pipeline_.number(staged);
  state_.announce(call);
  try {
    // First, for the copies may have to wait for it.
    proxy_->add([this, ready, staged] { perform(*ready, staged); });
    pipeline_.enqueue(staged);
    device_->end(stream);
  } catch (...) {
    end_with(std::current_exception());
    throw;
  }
  return true;
}

bool StagedBackend::start(std::span<const PeerMessage> messages, std::span<void* const>) {
  fail(ErrorCode::kInvalidArgument, "rank ", rank_, ", ", to_text(messages.front()),
       ": messages between GPUs are for ranks of one host, and these are on ", host_.hosts.count(),
       "; copy it to host memory and call send and receive there");
}

bool StagedBackend::advance() { return true; }

PlanLimits StagedBackend::plan_limits(const Settings& settings) const { return host_plan_limits(settings); }

void StagedBackend::give(std::shared_ptr<const VerifiedPlan>) { ready_.clear(); }

const VerifiedPlan& StagedBackend::plan_for(const Call& call) { return *ready_for(call)->plan; }

std::string StagedBackend::launch_for(const Call& call) {
  const CallChunks& chunks = ready_for(call)->chunks;
  const Call first = chunks.call(0);
  return join("staged in host memory in ", counted(chunks.count(), "chunk"), " of ",
              std::to_string(message_bytes(first, size_)), " bytes");
}

std::shared_ptr<const StagedBackend::Ready> StagedBackend::ready_for(const Call& call) {
  return ready_.get(call, [&] { return make_ready(call); });
}

// Chunks end at whole cache lines of each block, so they are cut a little longer than chosen, but never too long for
// their slots.
CallChunks StagedBackend::chunks_of(const Call& call) const {
  std::map<std::string, CostCurve> curves;  // by plan
  const size_t bytes = choose_chunk(message_bytes(call, size_), chunk_bytes_, [&](size_t chunk) {
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

std::shared_ptr<const VerifiedPlan> StagedBackend::plan_of(const Call& chunk) const {
  std::shared_ptr<const VerifiedPlan> plan = host_.tuner.plan(choice_for(host_.tuner, chunk).plan);
  check_nodes(plan->plan(), host_.hosts);
  return plan;
}

std::shared_ptr<const StagedBackend::Ready> StagedBackend::make_ready(const Call& call) const {
  const CallChunks chunks = chunks_of(call);
  const Call first = chunks.call(0), last = chunks.call(chunks.count() - 1);
  Ready ready{chunks, plan_of(first), plan_of(last), {}, {}};
  ready.bound = bind(*ready.plan, first, rank_, host_.limits);
  ready.last_bound = bind(*ready.last_plan, last, rank_, host_.limits);
  return std::make_shared<const Ready>(std::move(ready));
}

void StagedBackend::perform(const Ready& ready, const StagedCall& call) {
  const size_t last = call.chunks.count() - 1;
  pipeline_.perform(
      call,
      [&](size_t i, const void* input, void* output) {
        host_.host.run(i == last ? ready.last_bound : ready.bound, call.chunks.call(i), input, output);
      },
      [&] {
        if (state_.has_failed()) throw *state_.failure();
      });
}

void StagedBackend::finish() {
  proxy_->drain();
  device_->finish();
}

void StagedBackend::poll_reports() {
  if (state_.has_failed()) return;
  try {
    device_->check();
  } catch (...) {
    end_with(std::current_exception());
  }
}

void StagedBackend::end_with(std::exception_ptr error) noexcept {
  const auto abort = [&](ErrorCode code, const char* why) {
    if (state_.has_failed()) return;
    state_.abort(code, join("rank ", rank_, " could not perform a call on its GPU: ", why));
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
  pipeline_.give_up();
}

}  // namespace plait
