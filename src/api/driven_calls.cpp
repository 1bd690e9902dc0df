// Performs calls chunk by chunk, on several lanes.
#include "api/driven_calls.hpp"

#include <algorithm>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "api/choice_for.hpp"
#include "base/error.hpp"
#include "runtime/driven_reduces.hpp"
#include "runtime/message_layout.hpp"

namespace plait {

DrivenCalls::DrivenCalls(std::vector<DrivenLane> lanes, Tuner& tuner, size_t cpu_reduce_bytes, Hooks hooks)
    : tuner_(tuner), cpu_reduce_bytes_(cpu_reduce_bytes), hooks_(std::move(hooks)) {
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

const std::optional<CallChunks>& DrivenCalls::ready_for(const Call& call) {
  return ready_.get(call, [&] { return prepare(call); });
}

std::optional<CallChunks> DrivenCalls::prepare(const Call& call) {
  if (call.collective != Collective::kAllReduce || call.count == 0) return {};
  const size_t groups = groups_or_nodes(tuner_.machine().base).size();
  if (message_bytes(call, lanes_.front().communicator.size()) <= cpu_reduce_bytes_ * groups) return {};
  CallChunks chunks = hooks_.cut(call);
  if (!can_drive(chunks.call(0)) || !can_drive(chunks.call(chunks.count() - 1))) return {};
  return chunks;
}

bool DrivenCalls::can_drive(const Call& chunk) {
  const std::shared_ptr<const VerifiedPlan> plan = tuner_.plan(choice_for(tuner_, chunk).plan);
  return can_be_driven(plan->plan()) && lanes_.front().communicator.has_room_to_drive(chunk);
}

// The output of an all-reduce may hold the products.
void DrivenCalls::run(const Call& call, const void* input, void* output, const Scalar* scalar) {
  const CallChunks& chunks = *ready_for(call);
  if (scalar != nullptr) {
    lanes_.front().gpu->multiply(*scalar, input, output, call.count);
    input = output;
  }
  const auto* const from = static_cast<const std::byte*>(input);
  auto* const to = static_cast<std::byte*>(output);
  for (size_t lane = 1; lane < std::min(lanes_.size(), chunks.count()); ++lane) {
    lanes_[lane].proxy->add([this, lane, &chunks, from, to] { perform(lane, chunks, from, to); });
  }
  perform(0, chunks, from, to);
  drain();
  ++calls_;
}

void DrivenCalls::perform(size_t lane, const CallChunks& chunks, const std::byte* input, std::byte* output) {
  Lane& its = lanes_[lane];
  try {
    for (size_t i = lane; i < chunks.count(); i += lanes_.size()) {
      its.communicator.run(chunks.call(i), input + chunks.offset(i), output + chunks.offset(i), *its.gpu);
    }
  } catch (const Error& error) {
    hooks_.tell(error);
    throw;
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
