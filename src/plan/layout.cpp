// Assigns rows and gaps.
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
      first_queue_.push_back(queues_.size());
      auto& queues = layout_.position.emplace_back();
      for (size_t queue = 0; queue < plan.ranks[rank].queues.size(); ++queue) {
        queues.emplace_back(plan.ranks[rank].queues[queue].operations.size(), kUnknown);
        queues_.push_back({rank, static_cast<int>(queue)});
      }
    }
  }

  PlanLayout run() {
    std::deque<size_t> ready;
    for (size_t i = 0; i < queues_.size(); ++i) ready.push_back(i);
    while (!ready.empty()) {
      QueueWalk& queue = queues_[ready.front()];
      ready.pop_front();
      while (queue.next < static_cast<int>(operations_of(queue).size()) && step(queue, ready)) ++queue.next;
    }
    for (const QueueWalk& queue : queues_) {
      if (queue.next < static_cast<int>(operations_of(queue).size())) {
        refuse_operation(plan_, false, {queue.rank, queue.queue, queue.next}, "waits for ever");
      }
    }
    layout_.gaps = std::max(layout_.gaps, layout_.rows);
    return std::move(layout_);
  }

 private:
  static constexpr int kUnknown = -1;

  struct QueueWalk {
    int rank = 0, queue = 0;
    int next = 0;
    int row = 0;       // the first row that the queue can still use
    int free_gap = 0;  // the first gap below all signals that have come; a gap holds one hop
  };

  const std::vector<Operation>& operations_of(const QueueWalk& queue) const {
    return plan_.ranks[queue.rank].queues[queue.queue].operations;
  }

  // Places the queue's next operation. Returns false if what it waits for has no place yet.
  bool step(QueueWalk& queue, std::deque<size_t>& ready) {
    const Operation& operation = operations_of(queue)[queue.next];
    int& position = layout_.position[queue.rank][queue.queue][queue.next];
    switch (operation.kind) {
      case OpKind::kSignal:
        position = queue.row = std::max(queue.row, queue.free_gap);
        layout_.gaps = std::max(layout_.gaps, position + 1);
        ready.push_back(queue_index(layout_.pairing.signals[operation.peer_rank][operation.number].to));
        return true;
      case OpKind::kWait: {
        const int sent = layout_.at(layout_.pairing.signals[queue.rank][operation.number].from);
        if (sent == kUnknown) return false;
        position = queue.row = std::max(queue.row, sent);
        queue.free_gap = std::max(queue.free_gap, sent + 1);
        return true;
      }
      case OpKind::kReceive: {
        const int sent = layout_.at(layout_.pairing.messages[queue.rank][operation.number].from);
        if (sent == kUnknown) return false;
        queue.row = std::max(queue.row, sent + 1);
        break;
      }
      case OpKind::kSend:
        ready.push_back(queue_index(layout_.pairing.messages[operation.peer_rank][operation.number].to));
        break;
      case OpKind::kReduce:
        break;
    }
    position = queue.row++;
    layout_.rows = std::max(layout_.rows, queue.row);
    return true;
  }

  size_t queue_index(const OperationId& id) const { return first_queue_[id.rank] + id.queue; }

  const Plan& plan_;
  std::vector<QueueWalk> queues_;
  std::vector<size_t> first_queue_;
  PlanLayout layout_;
};

}  // namespace

PlanLayout lay_out(const Plan& plan) { return Walk(plan).run(); }

}  // namespace plait
