// Signals of every member to every other.
#include "algorithms/steps/signals.hpp"

#include <utility>

namespace plait {

SignalTable signal_all(PlanBuilder& builder, const std::vector<QueueId>& from, const std::vector<QueueId>& to) {
  const size_t count = from.size();
  builder.expect(static_cast<int64_t>(2 * count * (count - 1)));
  SignalTable signals(count, std::vector<SignalId>(count));
  for (size_t i = 0; i < count; ++i) {
    for (size_t d = 1; d < count; ++d) signals[i][d] = builder.signal(from[i], to[(i + d) % count]);
  }
  return signals;
}

void wait_all(PlanBuilder& builder, const SignalTable& signals, int index) {
  const int count = static_cast<int>(signals.size());
  for (int d = 1; d < count; ++d) wait_one(builder, signals, index, (index + d) % count);
}

void wait_one(PlanBuilder& builder, const SignalTable& signals, int index, int other) {
  const int count = static_cast<int>(signals.size());
  builder.wait(signals[other][(index - other + count) % count]);
}

void barrier_among(PlanBuilder& builder, const std::vector<QueueId>& queues) {
  const SignalTable signals = signal_all(builder, queues);
  for (size_t i = 0; i < queues.size(); ++i) wait_all(builder, signals, static_cast<int>(i));
}

Stages::Stages(PlanBuilder& builder, std::vector<QueueId> first, Engine engine, bool queue_a_step)
    : builder_(builder), engine_(engine), queue_a_step_(queue_a_step) {
  queues_.push_back(std::move(first));
}

const std::vector<QueueId>& Stages::after(int steps) {
  if (!queue_a_step_) return queues_[0];
  while (static_cast<int>(queues_.size()) <= steps) {
    auto& stage = queues_.emplace_back();
    for (const QueueId& first : queues_[0]) stage.push_back(builder_.add_queue(first.rank, engine_));
  }
  return queues_[static_cast<size_t>(steps)];
}

SignalTable Stages::tell_all(int steps) {
  if (members() == 1) return SignalTable(1, std::vector<SignalId>(1));
  return signal_all(builder_, after(steps), after(steps + 1));
}

}  // namespace plait
