// Critical paths.
#include "model/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "plan/conditions.hpp"
#include "plan/shape.hpp"
#include "plan/traffic.hpp"

namespace plait {
namespace {

Line operator+(const Line& a, const Line& b) { return {a.start + b.start, a.per_byte + b.per_byte}; }

}  // namespace

// Takes the queues in turn, each as far as it can go.
class Timeline::Order {
 public:
  Order(Timeline& timeline, const Plan& plan, const Pairing& pairing, Routes& routes)
      : timeline_(timeline), plan_(plan), pairing_(pairing), routes_(routes) {
    size_t ends = 0;
    for (int rank = 0; rank < plan.rank_count(); ++rank) {
      const RankPlan& it = plan.ranks[rank];
      first_queue_.push_back(queues_.size());
      for (int queue = 0; queue < static_cast<int>(it.queues.size()); ++queue) queues_.push_back({rank, queue});
      first_signal_.push_back(ends);
      first_message_.push_back(ends + static_cast<size_t>(it.signals));
      ends += static_cast<size_t>(it.signals) + static_cast<size_t>(it.messages);
    }
    told_.resize(ends);
    timeline.queues_ = queues_.size();
    timeline.signals_ = ends;
  }

  void find() {
    std::deque<size_t> ready;
    for (size_t queue = 0; queue < queues_.size(); ++queue) ready.push_back(queue);
    for (; !ready.empty(); ready.pop_front()) {
      QueueState& queue = queues_[ready.front()];
      const auto& operations = plan_.ranks[queue.rank].queues[queue.queue].operations;
      const size_t before = timeline_.steps_.size();
      while (queue.next < static_cast<int>(operations.size()) && add(queue, operations[queue.next], ready))
        ++queue.next;
      if (timeline_.steps_.size() > before) timeline_.stretches_.push_back({ready.front(), timeline_.steps_.size()});
    }
  }

 private:
  struct QueueState {
    int rank = 0, queue = 0;
    int next = 0;
  };

  // False where the queue has to wait.
  bool add(const QueueState& queue, const Operation& operation, std::deque<size_t>& ready) {
    Step step;
    step.crosses_nodes = crosses_nodes(plan_, queue.rank, operation);
    switch (operation.kind) {
      case OpKind::kSignal:
        tell(step, first_signal_, pairing_.signals, operation, ready);
        break;
      case OpKind::kSend:
        tell(step, first_message_, pairing_.messages, operation, ready);
        break;
      case OpKind::kWait:
        if (!hear(step, first_signal_, queue.rank, operation)) return false;
        break;
      case OpKind::kReceive:
        if (!hear(step, first_message_, queue.rank, operation)) return false;
        step.seconds = seconds_of(queue, operation);
        break;
      case OpKind::kReduce:
        step.seconds = seconds_of(queue, operation);
        break;
    }
    timeline_.steps_.push_back(step);
    return true;
  }

  void tell(Step& step, const std::vector<size_t>& first, const std::vector<std::vector<Pair>>& pairs,
            const Operation& operation, std::deque<size_t>& ready) {
    const size_t signal = first[operation.peer_rank] + static_cast<size_t>(operation.number);
    told_[signal] = true;
    step.kind = Kind::kTell;
    step.signal = static_cast<uint32_t>(signal);
    const OperationId& to = pairs[operation.peer_rank][operation.number].to;
    ready.push_back(first_queue_[to.rank] + static_cast<size_t>(to.queue));
  }

  bool hear(Step& step, const std::vector<size_t>& first, int rank, const Operation& operation) {
    const size_t signal = first[rank] + static_cast<size_t>(operation.number);
    if (!told_[signal]) return false;
    step.kind = Kind::kHear;
    step.signal = static_cast<uint32_t>(signal);
    step.between_ranks = operation.peer_rank != rank;
    const int from = routes_.device_of({operation.peer_rank}), to = routes_.device_of({rank});
    if (from != to) {
      const std::vector<Path>& paths = routes_.between(from, to);
      if (!paths.empty()) step.link_kind = static_cast<uint8_t>(paths.front().medium);
    }
    return true;
  }

  // The crossings of one operation go at the same time; those over the same pair of devices share it.
  double seconds_of(const QueueState& queue, const Operation& operation) {
    if (operation.chunks == 0) return 0;  // a barrier's message
    busy_.clear();
    double longest = 0;
    find_transfers(plan_, pairing_, {queue.rank, queue.queue, queue.next}, transfers_);
    for (const Transfer& crossing : transfers_) {
      double& seconds = busy_[{routes_.device_of(crossing.from), routes_.device_of(crossing.to)}];
      seconds += operation.chunks * routes_.seconds(crossing.from, crossing.to);
      longest = std::max(longest, seconds);
    }
    return longest / chunks_of_size(plan_);
  }

  Timeline& timeline_;
  const Plan& plan_;
  const Pairing& pairing_;
  Routes& routes_;
  std::vector<QueueState> queues_;
  std::vector<size_t> first_queue_, first_signal_, first_message_;  // of each rank
  std::vector<bool> told_;
  std::vector<Transfer> transfers_;             // of the operation at hand
  std::map<std::pair<int, int>, double> busy_;  // likewise: seconds between devices
};

Timeline::Timeline(const Plan& plan, const Pairing& pairing, Routes& routes) {
  Order(*this, plan, pairing, routes).find();
}

Line Timeline::critical_path(const StepCosts& costs, double bytes) const {
  std::array<double, kLinkKindCount + 1> latency = {};
  std::copy(costs.signal_seconds.begin(), costs.signal_seconds.end(), latency.begin());
  latency[kLocal] = costs.local_signal_seconds;
  const auto later = [&](const Line& a, const Line& b) { return a.at(bytes) < b.at(bytes) ? b : a; };
  std::vector<Line> queues(queues_), told(signals_);
  Line last;
  size_t next = 0;
  for (const Stretch& stretch : stretches_) {
    Line& now = queues[stretch.queue];
    for (; next < stretch.end; ++next) {
      const Step& step = steps_[next];
      now.start += costs.operation_seconds + (step.crosses_nodes ? costs.message_seconds : 0);
      if (step.kind == Kind::kTell) told[step.signal] = now;
      if (step.kind == Kind::kHear) now = later(now, told[step.signal] + Line{latency[step.link_kind], 0});
      now.per_byte += step.seconds * costs.link_share;
    }
    last = later(last, now);
  }
  return last;
}

int Timeline::steps() const {
  std::vector<int> queues(queues_), told(signals_);
  size_t next = 0;
  for (const Stretch& stretch : stretches_) {
    int& depth = queues[stretch.queue];
    for (; next < stretch.end; ++next) {
      const Step& step = steps_[next];
      if (step.kind == Kind::kTell) told[step.signal] = depth;
      if (step.kind == Kind::kHear) depth = std::max(depth, told[step.signal] + (step.between_ranks ? 1 : 0));
    }
  }
  return queues.empty() ? 0 : *std::max_element(queues.begin(), queues.end());
}

}  // namespace plait
