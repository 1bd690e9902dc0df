// Signals of everybody to everybody, among any list of ranks.
#pragma once

#include <deque>
#include <vector>

#include "plan/builder.hpp"

namespace plait {

// What waits for what where every member of a list tells every other: [i][d] is the signal from member i to i + d.
using SignalTable = std::vector<std::vector<SignalId>>;

// Lane i of `from` signals the lanes of `to` of all other members, beginning with the next so that they do not all meet
// at one. The two lists have lanes of the same members.
SignalTable signal_all(PlanBuilder& builder, const std::vector<LaneId>& from, const std::vector<LaneId>& to);
inline SignalTable signal_all(PlanBuilder& builder, const std::vector<LaneId>& lanes) {
  return signal_all(builder, lanes, lanes);
}
// Member `index` waits for all others, beginning with the next; or for one.
void wait_all(PlanBuilder& builder, const SignalTable& signals, int index);
void wait_one(PlanBuilder& builder, const SignalTable& signals, int index, int other);
// Everybody has come this far before anybody goes on.
void meet(PlanBuilder& builder, const std::vector<LaneId>& lanes);

// Lanes of the members of a list that act before anything came, after one step, after two: one lane a member for all
// of these, or one for each, so that a lane may be a slice of the message ahead of the lane that comes after it.
class Stages {
 public:
  // Later lanes are of `engine`.
  Stages(PlanBuilder& builder, std::vector<LaneId> first, Engine engine, bool lane_a_step);

  // The lanes that act after `steps` steps.
  const std::vector<LaneId>& after(int steps);
  LaneId lane(int member, int steps) { return after(steps)[static_cast<size_t>(member)]; }
  // Every member that has made so many steps tells every other what it needs for its next.
  SignalTable tell_all(int steps);
  int members() const { return static_cast<int>(lanes_[0].size()); }

 private:
  PlanBuilder& builder_;
  const Engine engine_;
  const bool lane_a_step_;
  std::deque<std::vector<LaneId>> lanes_;  // [steps][member]; a deque, so that references stay
};

}  // namespace plait
