// Rows and gaps.
#include "plan/layout.hpp"

#include <algorithm>
#include <deque>

namespace plait {
namespace {

class Walk {
 public:
  explicit Walk(const Plan& plan) : plan_(plan) {
    layout_.pairing = check_form(plan);
    for (int rank = 0; rank < plan.rank_count(); ++rank) {
      first_lane_.push_back(lanes_.size());
      auto& lanes = layout_.position.emplace_back();
      for (size_t lane = 0; lane < plan.ranks[rank].lanes.size(); ++lane) {
        lanes.emplace_back(plan.ranks[rank].lanes[lane].operations.size(), kUnknown);
        lanes_.push_back({rank, static_cast<int>(lane)});
      }
    }
  }

  PlanLayout run() {
    std::deque<size_t> ready;
    for (size_t i = 0; i < lanes_.size(); ++i) ready.push_back(i);
    while (!ready.empty()) {
      LaneWalk& lane = lanes_[ready.front()];
      ready.pop_front();
      while (lane.next < static_cast<int>(operations_of(lane).size()) && step(lane, ready)) ++lane.next;
    }
    for (const LaneWalk& lane : lanes_) {
      if (lane.next < static_cast<int>(operations_of(lane).size())) {
        refuse_operation(plan_, false, {lane.rank, lane.lane, lane.next}, "waits for ever");
      }
    }
    layout_.gaps = std::max(layout_.gaps, layout_.rows);
    return std::move(layout_);
  }

 private:
  static constexpr int kUnknown = -1;

  struct LaneWalk {
    int rank = 0, lane = 0;
    int next = 0;
    int row = 0;       // the first row that the lane can still use
    int free_gap = 0;  // the first gap below all signals that came: one gap holds one hop
  };

  const std::vector<Operation>& operations_of(const LaneWalk& lane) const {
    return plan_.ranks[lane.rank].lanes[lane.lane].operations;
  }

  // Places the lane's next operation; false where what it waits for has no place yet.
  bool step(LaneWalk& lane, std::deque<size_t>& ready) {
    const Operation& operation = operations_of(lane)[lane.next];
    int& position = layout_.position[lane.rank][lane.lane][lane.next];
    switch (operation.kind) {
      case OpKind::kSignal:
        position = lane.row = std::max(lane.row, lane.free_gap);
        layout_.gaps = std::max(layout_.gaps, position + 1);
        ready.push_back(lane_index(layout_.pairing.signals[operation.peer_rank][operation.number].to));
        return true;
      case OpKind::kWait: {
        const int sent = layout_.at(layout_.pairing.signals[lane.rank][operation.number].from);
        if (sent == kUnknown) return false;
        position = lane.row = std::max(lane.row, sent);
        lane.free_gap = std::max(lane.free_gap, sent + 1);
        return true;
      }
      case OpKind::kReceive: {
        const int sent = layout_.at(layout_.pairing.messages[lane.rank][operation.number].from);
        if (sent == kUnknown) return false;
        lane.row = std::max(lane.row, sent + 1);
        break;
      }
      case OpKind::kSend:
        ready.push_back(lane_index(layout_.pairing.messages[operation.peer_rank][operation.number].to));
        break;
      case OpKind::kFold:
        break;
    }
    position = lane.row++;
    layout_.rows = std::max(layout_.rows, lane.row);
    return true;
  }

  size_t lane_index(const OperationId& id) const { return first_lane_[id.rank] + id.lane; }

  const Plan& plan_;
  std::vector<LaneWalk> lanes_;
  std::vector<size_t> first_lane_;
  PlanLayout layout_;
};

}  // namespace

PlanLayout lay_out(const Plan& plan) { return Walk(plan).run(); }

}  // namespace plait
