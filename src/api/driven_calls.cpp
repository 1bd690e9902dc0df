// Performs calls chunk by chunk, on several lanes.
#include "api/driven_calls.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/arguments.hpp"
#include "api/call_checks.hpp"
#include "api/choice_for.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/proof_size.hpp"
#include "plan/through_host.hpp"
#include "plan/verifier.hpp"
#include "runtime/driven_reduces.hpp"
#include "runtime/message_layout.hpp"

namespace plait {
namespace {

// The plans of more ranks take too long to make in a call; these are staged.
constexpr int kMostRanks = 256;
// Collectives without a ring of groups are staged from so much shorter messages on: measured (cpu_driven_calls.md).
constexpr size_t kLessOfOthers = 4;
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
  if (is_empty(call) || call.collective == Collective::kBarrier) return {};
  const bool is_pinned = call.plan != 0 || choice_for(tuner_, call).is_forced;
  const size_t bytes = message_bytes(call, tuner_.machine().ranks());
  if (call.collective != Collective::kAllReduce) {
    if (!is_pinned && bytes > most_bytes_ / kLessOfOthers) return {};
    return with_plan(call, plan_of_tuner(call));
  }
  if (is_pinned) {
    if (is_short(call)) return {};  // staged, which is another way for the CPU to reduce (NVG-63)
    return with_plan(call, plan_of_tuner(call));
  }
  if (is_short(call)) return with_plan(call, plan_named("cpu_recursive_doubling"));
  if (bytes > most_bytes_) return {};
  return with_plan(call, plan_named("nvgroup_ring"));
}

bool DrivenCalls::is_short(const Call& call) const {
  const size_t groups = groups_or_nodes(tuner_.machine().base).size();
  return message_bytes(call, tuner_.machine().ranks()) <= cpu_reduce_bytes_ * groups;
}

// All chunks have the plan of the call. One that lanes cannot take or have no room for is none.
std::optional<DrivenCalls::Ready> DrivenCalls::with_plan(const Call& call, std::shared_ptr<const VerifiedPlan> plan) {
  if (!plan) return {};
  Call chosen = call;
  chosen.plan = plan->fingerprint();
  try {
    lanes_.front().communicator.give(plan);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    return {};
  }
  const CallChunks chunks = cut(call).with(chosen);
  if (!has_room(chunks.call(0)) || !has_room(chunks.call(chunks.count() - 1))) return {};
  return Ready{chunks, std::move(plan)};
}

CallChunks DrivenCalls::cut(const Call& call) const {
  if (!has_rank_blocks(call.collective)) return hooks_.cut(call);
  const Communicator& caller = lanes_.front().communicator;
  const auto ranks = static_cast<size_t>(caller.size());
  const size_t whole = message_bytes(call, caller.size()) + ranks * kChunkAlignment;  // blocks are rounded down
  return CallChunks(call, caller.size(), caller.rank(), whole);
}

std::shared_ptr<const VerifiedPlan> DrivenCalls::plan_named(const char* algorithm) {
  return known(algorithm, [&] {
    AlgorithmArguments arguments = tuner_.machine().base;
    arguments.collective = Collective::kAllReduce;
    return make_plan(algorithm, arguments);
  });
}

std::shared_ptr<const VerifiedPlan> DrivenCalls::plan_of_tuner(const Call& call) {
  if (tuner_.machine().ranks() > kMostRanks) return nullptr;
  std::shared_ptr<const VerifiedPlan> plan = tuner_.plan(choice_for(tuner_, call).plan);
  if (can_be_driven(plan->plan(), lanes_.front().communicator.network_reaches_gpus())) return plan;
  return known(join(plan->fingerprint()), [&] { return through_host(plan->plan()); });
}

// Plans are made once. One that ranks cannot have is remembered as well: of groups that lie on several nodes there is
// no ring, and some plans are too large to prove with copies added.
std::shared_ptr<const VerifiedPlan> DrivenCalls::known(const std::string& name, const std::function<Plan()>& make) {
  const auto [found, is_new] = plans_.try_emplace(name);
  std::shared_ptr<const VerifiedPlan>& plan = found->second;
  if (!is_new || tuner_.machine().ranks() > kMostRanks) return plan;
  try {
    plan = std::make_shared<const VerifiedPlan>(verify(make()));
  } catch (const PlanTooLarge&) {
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
  }
  if (plan && !can_be_driven(plan->plan())) plan = nullptr;
  return plan;
}

bool DrivenCalls::has_room(const Call& chunk) { return lanes_.front().communicator.has_room_to_drive(chunk); }

void DrivenCalls::run(const Call& call, const void* input, void* output, const Scalar* scalar) {
  const Ready& ready = *ready_for(call);
  input = prepared_input(call, *ready.plan, input, output, scalar);
  const auto* const from = static_cast<const std::byte*>(input);
  auto* const to = static_cast<std::byte*>(output);
  for (size_t lane = 1; lane < std::min(lanes_.size(), ready.chunks.count()); ++lane) {
    lanes_[lane].proxy->add([this, lane, &ready, from, to] { perform(lane, ready, from, to); });
  }
  perform(0, ready, from, to);
  await_lanes();
  ++calls_;
}

// The output of an all-reduce may hold the products, which makes it a call in place; those of others may be shorter. A
// plan that cannot run in place gets its input from elsewhere; other ranks need not know.
const void* DrivenCalls::prepared_input(const Call& call, const VerifiedPlan& plan, const void* input, void* output,
                                        const Scalar* scalar) const {
  const Communicator& caller = lanes_.front().communicator;
  ReduceDevice& gpu = *lanes_.front().gpu;
  const size_t elements = input_elements(call, caller.size(), caller.rank());
  if (scalar != nullptr) {
    const bool is_in_output = call.collective == Collective::kAllReduce && plan.plan().in_place;
    return gpu.multiply(*scalar, input, is_in_output ? output : nullptr, elements);
  }
  const bool needs_copy = !plan.plan().in_place && has_both_in_place(call, caller.rank(), input, output);
  return needs_copy ? gpu.copy(input, elements * size_of(call.type)) : input;
}

void DrivenCalls::perform(size_t lane, const Ready& ready, const std::byte* input, std::byte* output) {
  Lane& its = lanes_[lane];
  const CallChunks& chunks = ready.chunks;
  try {
    its.communicator.give(ready.plan);  // it forgets when it is given many
    const auto at = [](auto* buffer, size_t offset) { return buffer == nullptr ? buffer : buffer + offset; };
    its.gpu->use([&] {
      for (size_t i = lane; i < chunks.count(); i += lanes_.size()) {
        const size_t offset = chunks.offset(i);
        its.communicator.run(chunks.call(i), at(input, offset), at(output, offset), *its.gpu);
      }
    });
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

void DrivenCalls::give(const std::shared_ptr<const VerifiedPlan>& plan) {
  ready_.clear();
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
