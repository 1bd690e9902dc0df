// Performs calls chunk by chunk, on several lanes.
#include "api/driven_calls.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/arguments.hpp"
#include "api/choice_for.hpp"
#include "base/error.hpp"
#include "plan/verifier.hpp"
#include "runtime/driven_reduces.hpp"
#include "runtime/message_layout.hpp"

namespace plait {
namespace {

// The plans of more ranks take too long to make in a call; these are staged.
constexpr int kMostRanks = 256;
constexpr std::chrono::milliseconds kBetweenLooks(50);  // at whether the caller is interrupted

}  // namespace

DrivenCalls::DrivenCalls(std::vector<DrivenLane> lanes, Tuner& tuner, const Settings& settings, Hooks hooks)
    : tuner_(tuner),
      cpu_reduce_bytes_(static_cast<size_t>(settings.cpu_reduce_bytes)),
      most_bytes_(static_cast<size_t>(settings.cpu_driven_bytes)),
      hooks_(std::move(hooks)) {
  for (DrivenLane& lane : lanes) lanes_.push_back({std::move(lane), nullptr});
  for (Lane& lane : lanes_) {
    lane.gpu->map_host(lane.communicator.shared_memory(), lane.communicator.shared_bytes());
    const bool is_callers = &lane == &lanes_.front();
    lane.communicator.set_interrupt_check([this, &lane, is_callers] {
      hooks_.look(lane.communicator);
      if (is_callers) hooks_.hear_interrupts();
    });
    if (!is_callers) lane.proxy = std::make_unique<Proxy>(hooks_.on_failure);
  }
}

const std::optional<DrivenCalls::Ready>& DrivenCalls::ready_for(const Call& call) {
  return ready_.get(call, [&] { return prepare(call); });
}

std::optional<DrivenCalls::Ready> DrivenCalls::prepare(const Call& call) {
  if (call.collective != Collective::kAllReduce || call.count == 0) return {};
  const size_t groups = groups_or_nodes(tuner_.machine().base).size();
  const size_t bytes = message_bytes(call, tuner_.machine().ranks());
  const bool is_short = bytes <= cpu_reduce_bytes_ * groups;
  if (call.plan == 0 && !choice_for(tuner_, call).is_forced) {
    if (!is_short && bytes > most_bytes_) return {};
    return with_chosen_plan(call, is_short);
  }
  if (is_short) return {};  // staged, which is another way for the CPU to reduce (NVG-63)
  return with_named_plan(call);
}

std::optional<DrivenCalls::Ready> DrivenCalls::with_chosen_plan(const Call& call, bool is_short) {
  std::shared_ptr<const VerifiedPlan> plan = plan_named(is_short ? "cpu_recursive_doubling" : "nvgroup_ring");
  if (!plan) return {};
  Call chosen = call;
  chosen.plan = plan->fingerprint();
  const CallChunks cut = hooks_.cut(call);
  CallChunks chunks = cut.with(chosen);
  if (!can_drive(chunks.call(0), *plan) || !can_drive(chunks.call(chunks.count() - 1), *plan)) return {};
  return Ready{chunks, std::move(plan)};
}

// The lanes choose the same for each chunk: what the user or the call names.
std::optional<DrivenCalls::Ready> DrivenCalls::with_named_plan(const Call& call) {
  const CallChunks chunks = hooks_.cut(call);
  const auto plan_of = [&](size_t i) { return tuner_.plan(choice_for(tuner_, chunks.call(i)).plan); };
  std::shared_ptr<const VerifiedPlan> plan = plan_of(0);
  const size_t last = chunks.count() - 1;
  if (!can_drive(chunks.call(0), *plan) || !can_drive(chunks.call(last), *plan_of(last))) return {};
  return Ready{chunks, std::move(plan)};
}

std::shared_ptr<const VerifiedPlan> DrivenCalls::plan_named(const char* algorithm) {
  const auto [found, is_new] = plans_.try_emplace(algorithm);
  if (!is_new || tuner_.machine().ranks() > kMostRanks) return found->second;
  AlgorithmArguments arguments = tuner_.machine().base;
  arguments.collective = Collective::kAllReduce;
  try {
    found->second = std::make_shared<const VerifiedPlan>(verify(make_plan(algorithm, arguments)));
    for (Lane& lane : lanes_) lane.communicator.give(found->second);
  } catch (const Error& error) {  // of groups that lie on several nodes there is no ring
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    found->second = nullptr;
  }
  return found->second;
}

bool DrivenCalls::can_drive(const Call& chunk, const VerifiedPlan& plan) {
  return can_be_driven(plan.plan()) && lanes_.front().communicator.has_room_to_drive(chunk);
}

// The output of an all-reduce may hold the products.
void DrivenCalls::run(const Call& call, const void* input, void* output, const Scalar* scalar) {
  const Ready& ready = *ready_for(call);
  if (scalar != nullptr) {
    lanes_.front().gpu->multiply(*scalar, input, output, call.count);
    input = output;
  }
  const auto* const from = static_cast<const std::byte*>(input);
  auto* const to = static_cast<std::byte*>(output);
  for (size_t lane = 1; lane < std::min(lanes_.size(), ready.chunks.count()); ++lane) {
    lanes_[lane].proxy->add([this, lane, &ready, from, to] { perform(lane, ready, from, to); });
  }
  perform(0, ready, from, to);
  await_lanes();
  ++calls_;
}

void DrivenCalls::perform(size_t lane, const Ready& ready, const std::byte* input, std::byte* output) {
  Lane& its = lanes_[lane];
  const CallChunks& chunks = ready.chunks;
  try {
    if (chunks.call(0).plan != 0) its.communicator.give(ready.plan);  // it forgets when it is given many
    for (size_t i = lane; i < chunks.count(); i += lanes_.size()) {
      its.communicator.run(chunks.call(i), input + chunks.offset(i), output + chunks.offset(i), *its.gpu);
    }
  } catch (const Error& error) {
    hooks_.tell(error);
    throw;
  }
}

// The lane of this thread hears interrupts itself.
void DrivenCalls::await_lanes() {
  for (const Lane& lane : lanes_) {
    while (lane.proxy && !lane.proxy->drain_within(kBetweenLooks)) hooks_.hear_interrupts();
  }
}

void DrivenCalls::drain() {
  for (const Lane& lane : lanes_) {
    if (lane.proxy) lane.proxy->drain();
  }
}

void DrivenCalls::leave() {
  drain();
  for (const Lane& lane : lanes_) lane.gpu->finish();
}

void DrivenCalls::give_up() noexcept {
  for (const Lane& lane : lanes_) lane.gpu->give_up();
}

// The lanes may forget plans that they were given before.
void DrivenCalls::give(const std::shared_ptr<const VerifiedPlan>& plan) {
  ready_.clear();
  plans_.clear();
  for (Lane& lane : lanes_) lane.communicator.give(plan);
}

void DrivenCalls::close() {
  for (Lane& lane : lanes_) lane.communicator.close();
}

size_t DrivenCalls::device_bytes() const {
  size_t bytes = 0;
  for (const Lane& lane : lanes_) bytes += lane.gpu->device_bytes();
  return bytes;
}

}  // namespace plait
