// Costs of plans.
#include "model/plan_cost.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "plan/conditions.hpp"
#include "plan/form.hpp"

namespace plait {
namespace {

Line operator+(const Line& a, const Line& b) { return {a.start + b.start, a.per_byte + b.per_byte}; }

// When each queue would be done if every operation had its paths for itself.
class CriticalPath {
 public:
  CriticalPath(const Plan& plan, Routes& routes, const StepCosts& costs, double bytes)
      : plan_(plan), routes_(routes), costs_(costs), bytes_(bytes), pairing_(check_form(plan)) {
    for (int rank = 0; rank < plan.rank_count(); ++rank) {
      first_queue_.push_back(queues_.size());
      for (size_t queue = 0; queue < plan.ranks[rank].queues.size(); ++queue) {
        queues_.push_back({rank, static_cast<int>(queue), 0, {}});
      }
      signals_.emplace_back(plan.ranks[rank].signals, kNotYet);
      messages_.emplace_back(plan.ranks[rank].messages, kNotYet);
    }
  }

  Line longest() {
    std::deque<size_t> ready;
    for (size_t i = 0; i < queues_.size(); ++i) ready.push_back(i);
    Line last;
    while (!ready.empty()) {
      QueueTime& queue = queues_[ready.front()];
      ready.pop_front();
      const auto& operations = plan_.ranks[queue.rank].queues[queue.queue].operations;
      while (queue.next < static_cast<int>(operations.size()) && step(queue, operations[queue.next], ready))
        ++queue.next;
      last = later(last, queue.now);
    }
    return last;
  }

 private:
  static constexpr Line kNotYet = {-1, 0};
  struct QueueTime {
    int rank = 0, queue = 0;
    int next = 0;
    Line now;
  };

  const Line& later(const Line& a, const Line& b) const { return a.at(bytes_) < b.at(bytes_) ? b : a; }

  bool step(QueueTime& queue, const Operation& operation, std::deque<size_t>& ready) {
    queue.now.start += costs_.operation_seconds;
    switch (operation.kind) {
      case OpKind::kSignal:
        return tell(queue, signals_, pairing_.signals, operation, ready);
      case OpKind::kSend:
        return tell(queue, messages_, pairing_.messages, operation, ready);
      case OpKind::kWait:
        if (hear(queue, signals_[queue.rank][operation.number], operation.peer_rank)) return true;
        queue.now.start -= costs_.operation_seconds;  // it is looked at again
        return false;
      case OpKind::kReceive:
        if (!hear(queue, messages_[queue.rank][operation.number], operation.peer_rank)) {
          queue.now.start -= costs_.operation_seconds;
          return false;
        }
        break;
      case OpKind::kReduce:
        break;
    }
    queue.now.per_byte += seconds_of({queue.rank, queue.queue, queue.next}, operation);
    return true;
  }

  bool tell(const QueueTime& queue, std::vector<std::vector<Line>>& times, const std::vector<std::vector<Pair>>& pairs,
            const Operation& operation, std::deque<size_t>& ready) {
    times[operation.peer_rank][operation.number] = queue.now;
    const OperationId& to = pairs[operation.peer_rank][operation.number].to;
    ready.push_back(first_queue_[to.rank] + to.queue);
    return true;
  }

  bool hear(QueueTime& queue, const Line& sent, int sender) {
    if (sent.start < 0) return false;
    queue.now = later(queue.now, sent + Line{signal_seconds(sender, queue.rank), 0});
    return true;
  }

  double signal_seconds(int from, int to) {
    const auto [it, is_new] = signal_seconds_.try_emplace({from, to});
    if (!is_new) return it->second;
    const int a = routes_.device_of({from}), b = routes_.device_of({to});
    const std::vector<Path>* paths = from == to || a == b ? nullptr : &routes_.between(a, b);
    it->second = paths == nullptr || paths->empty() ? costs_.local_signal_seconds
                                                    : costs_.signal_seconds[static_cast<size_t>(paths->front().medium)];
    return it->second;
  }

  // The crossings of one operation go at the same time; those over the same pair of devices share it.
  double seconds_of(const OperationId& id, const Operation& operation) {
    if (operation.chunks == 0) return 0;  // a barrier's message
    std::map<std::pair<int, int>, double> busy;
    double longest = 0;
    for (const Transfer& crossing : transfers(plan_, pairing_, id)) {
      double& seconds = busy[{routes_.device_of(crossing.from), routes_.device_of(crossing.to)}];
      seconds += operation.chunks * routes_.seconds(crossing.from, crossing.to);
      longest = std::max(longest, seconds);
    }
    return longest / chunks_of_size(plan_) * costs_.link_share;
  }

  const Plan& plan_;
  Routes& routes_;
  const StepCosts& costs_;
  const double bytes_;
  const Pairing pairing_;
  std::vector<QueueTime> queues_;
  std::vector<size_t> first_queue_;
  std::vector<std::vector<Line>> signals_, messages_;  // when they were sent
  std::map<std::pair<int, int>, double> signal_seconds_;
};

StepCosts step_costs(const Costs& costs, const Costs::Protocol& protocol) {
  StepCosts steps;
  steps.operation_seconds = costs.operation_seconds;
  steps.local_signal_seconds = costs.local_signal_seconds * protocol.signal_share;
  for (size_t kind = 0; kind < steps.signal_seconds.size(); ++kind) {
    steps.signal_seconds[kind] = costs.signal_seconds[kind] * protocol.signal_share;
  }
  steps.link_share = protocol.bytes_share / costs.link_efficiency;
  return steps;
}

// What the rank that reads and writes most does, for each byte of the message.
double memory_bytes(const VerifiedPlan& verified) {
  int64_t most = 0;
  const PlanReport& report = verified.report();
  for (size_t rank = 0; rank < report.chunks_read.size(); ++rank) {
    most = std::max(most, report.chunks_read[rank] + report.chunks_written[rank]);
  }
  return static_cast<double>(most) / chunks_of_size(verified.plan());
}

}  // namespace

double Line::at(double bytes) const { return std::isinf(bytes) ? per_byte : start + per_byte * bytes; }

Line critical_path(const VerifiedPlan& plan, Routes& routes, const StepCosts& costs, double bytes) {
  return CriticalPath(plan.plan(), routes, costs, bytes).longest();
}

double CostCurve::seconds(double bytes) const {
  double longest = 0;
  for (const Line& line : lines_) longest = std::max(longest, line.at(bytes));
  return longest;
}

CostCurve cost_curve(const VerifiedPlan& plan, const LinkLoad& load, Routes& routes, const Costs& costs,
                     FlagPlace flags) {
  const Costs::Protocol protocol = flags == FlagPlace::kEvery8Bytes     ? costs.ll
                                   : flags == FlagPlace::kEvery128Bytes ? costs.ll128
                                                                        : Costs::Protocol{};
  const StepCosts steps = step_costs(costs, protocol);
  const Line launch = {costs.launch_seconds, 0};
  CostCurve curve;
  curve.add(launch + Line{0, load.busiest_seconds * steps.link_share});
  if (plan.plan().chunk_count() > 0 && costs.memory_gbps > 0) {
    curve.add(launch + Line{0, memory_bytes(plan) / (costs.memory_gbps * 1e9)});
  }
  // Between two of these sizes the critical path is one of theirs, or hardly longer.
  for (const double bytes : {0.0, 1e3, 3e4, 3e5, 3e6, 1e8, std::numeric_limits<double>::infinity()}) {
    curve.add(launch + critical_path(plan, routes, steps, bytes));
    if (plan.plan().chunk_count() == 0) break;
  }
  return curve;
}

}  // namespace plait
