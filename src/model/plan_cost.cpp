// Costs of plans.
#include "model/plan_cost.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "model/units.hpp"
#include "plan/conditions.hpp"
#include "plan/form.hpp"
#include "plan/shape.hpp"

namespace plait {
namespace {

Line after(double seconds, const Line& line) { return {seconds + line.start, line.per_byte}; }

// One rank stands for all ranks of equal amounts.
std::vector<MemoryBytes> memory_bytes(const Plan& plan, const PlanCounts& counts) {
  std::vector<MemoryBytes> bytes;
  if (plan.chunk_count() == 0) return bytes;
  std::set<std::array<int64_t, 3>> seen;
  for (size_t rank = 0; rank < counts.chunks_read.size(); ++rank) {
    const int64_t combined = counts.chunks_combined[rank], of_core = counts.chunks_of_cores[rank];
    const int64_t all = counts.chunks_read[rank] + counts.chunks_written[rank] - of_core;
    if (!seen.insert({all, combined, of_core}).second) continue;
    const double chunks = chunks_of_size(plan);
    bytes.push_back({static_cast<double>(all) / chunks, static_cast<double>(combined) / chunks,
                     static_cast<double>(of_core) / chunks});
  }
  return bytes;
}

// To and from other nodes, of the rank with the most.
int most_messages(const Plan& plan) {
  int most = 0;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    int messages = 0;
    for (const Queue& queue : plan.ranks[rank].queues) {
      messages += static_cast<int>(std::count_if(queue.operations.begin(), queue.operations.end(),
                                                 [&](const Operation& it) { return crosses_nodes(plan, rank, it); }));
    }
    most = std::max(most, messages);
  }
  return most;
}

Pairing checked(const Plan& plan, const Routes& routes) {
  const size_t placed = routes.placement().device_of_rank.size();
  if (placed != plan.ranks.size()) {
    fail(ErrorCode::kInvalidArgument, "model: ", placed, " ranks are placed, but plan ", plan.algorithm, " has ",
         plan.ranks.size());
  }
  return check_form(plan);
}

}  // namespace

StepCosts step_costs(const Costs& costs, FlagPlace flags) {
  const Costs::Protocol protocol = flags == FlagPlace::kEvery8Bytes     ? costs.ll
                                   : flags == FlagPlace::kEvery128Bytes ? costs.ll128
                                                                        : Costs::Protocol{};
  StepCosts steps;
  steps.operation_seconds = costs.operation_seconds;
  steps.message_seconds = costs.message_seconds;
  steps.local_signal_seconds = costs.local_signal_seconds * protocol.signal_share;
  for (size_t kind = 0; kind < steps.signal_seconds.size(); ++kind) {
    steps.signal_seconds[kind] = costs.signal_seconds[kind] * protocol.signal_share;
  }
  steps.link_share = protocol.bytes_share / costs.link_efficiency;
  return steps;
}

namespace {

double longest_at(double bytes, const std::vector<Line>& lines) {
  double longest = 0;
  for (const Line& line : lines) longest = std::max(longest, line.at(bytes));
  return longest;
}

}  // namespace

double CostCurve::seconds(double bytes) const { return std::max(longest_at(bytes, paths_), longest_at(bytes, flows_)); }

double CostCurve::seconds_in_any_parts(double bytes) const {
  return std::max(longest_at(0, paths_), longest_at(bytes, flows_));
}

PlanModel::PlanModel(const Plan& plan, Routes& routes) : PlanModel(plan, checked(plan, routes), routes) {}

PlanModel::PlanModel(const Plan& plan, const Pairing& pairing, Routes& routes)
    : PlanModel(plan, count(plan, pairing), Timeline(plan, pairing, routes), routes) {}

PlanModel::PlanModel(const Plan& plan, const PlanCounts& counts, Timeline timeline, Routes& routes)
    : timeline_(std::move(timeline)),
      load_(link_load(plan, counts, timeline_, routes)),
      steps_(timeline_.steps()),
      moves_data_(plan.chunk_count() > 0),
      memory_bytes_(memory_bytes(plan, counts)),
      messages_(most_messages(plan)) {}

CostCurve PlanModel::curve(const Costs& costs, FlagPlace flags) const {
  const StepCosts steps = step_costs(costs, flags);
  CostCurve curve;
  curve.add_flow({costs.launch_seconds, load_.busiest_seconds * steps.link_share});
  curve.add_flow({costs.launch_seconds + messages_ * costs.message_seconds, 0});
  for (const MemoryBytes& of_rank : memory_bytes_) {
    const double bytes = of_rank.all + (costs.combine_share - 1) * of_rank.combined;
    for (const Line& line : costs.memory_lines()) {
      curve.add_flow({costs.launch_seconds + line.start, line.per_byte * bytes});
    }
    if (costs.core_gbps > 0) curve.add_flow({costs.launch_seconds, of_rank.of_core / (costs.core_gbps * kBytesPerGb)});
  }
  // Between two of these sizes the critical path is one of theirs, or hardly longer.
  for (const double bytes : {0.0, 1e3, 3e4, 3e5, 3e6, 1e8, std::numeric_limits<double>::infinity()}) {
    curve.add_path(after(costs.launch_seconds, timeline_.critical_path(steps, bytes)));
    if (!moves_data_) break;
  }
  return curve;
}

}  // namespace plait
