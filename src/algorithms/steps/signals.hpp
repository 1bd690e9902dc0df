// Signals of every member of a list of ranks to every other.
#pragma once

#include <deque>
#include <vector>

#include "plan/builder.hpp"

namespace plait {

// The signals by which every member of a list tells every other: [i][d] is the signal from member i to i + d.
using SignalTable = std::vector<std::vector<SignalId>>;

// Queue i of `from` signals the queues of `to` of all other members. It begins with the next one, so that not all
// signal the same member at once. The two lists have queues of the same members.
SignalTable signal_all(PlanBuilder& builder, const std::vector<QueueId>& from, const std::vector<QueueId>& to);
inline SignalTable signal_all(PlanBuilder& builder, const std::vector<QueueId>& queues) {
  return signal_all(builder, queues, queues);
}
// Member `index` waits for all others, beginning with the next one; wait_one() waits for one.
void wait_all(PlanBuilder& builder, const SignalTable& signals, int index);
void wait_one(PlanBuilder& builder, const SignalTable& signals, int index, int other);
// A barrier: all queues come this far before any goes on.
void barrier_among(PlanBuilder& builder, const std::vector<QueueId>& queues);

// The queues of the members of a list that act before anything has come, after one step, after two, and so on. Each
// member has one queue for all of these, or one for each, so that a queue may be a slice of the message ahead of the
// queue that comes after it.
class Stages {
 public:
  // Later queues are of `engine`.
  Stages(PlanBuilder& builder, std::vector<QueueId> first, Engine engine, bool queue_a_step);

  // The queues that act after `steps` steps.
  const std::vector<QueueId>& after(int steps);
  QueueId queue(int member, int steps) { return after(steps)[static_cast<size_t>(member)]; }
  // Every member that has made `steps` steps gives every other the signal that it needs for its next step.
  SignalTable tell_all(int steps);
  int members() const { return static_cast<int>(queues_[0].size()); }

 private:
  PlanBuilder& builder_;
  const Engine engine_;
  const bool queue_a_step_;
  std::deque<std::vector<QueueId>> queues_;  // [steps][member]; a deque, so that references stay valid
};

}  // namespace plait
