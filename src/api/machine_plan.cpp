// Plans for machines.
#include "api/machine_plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "model/explain.hpp"
#include "plan/conditions.hpp"

namespace plait {
namespace {

constexpr size_t kLongestMessage = size_t{8} << 30;  // in the table

// In units of 2^10, as sizes are asked for: "64K", or bytes where that would not be whole.
std::string size_text(size_t bytes) {
  constexpr std::array kUnits = {"", "K", "M", "G"};
  size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return join(bytes, kUnits[unit]);
}

std::string range_text(const ChoiceRange& range, bool is_last) {
  if (range.to == 0) return "any";
  if (range.from <= 1) return is_last ? "any" : join("to ", size_text(range.to));
  return is_last ? join("from ", size_text(range.from)) : join(size_text(range.from), " - ", size_text(range.to));
}

using Row = std::array<std::string, 6>;

Row row_of(const ChoiceRange& range, bool is_last, bool on_gpus) {
  const Choice& choice = range.choice;
  std::string algorithm = choice.plan.text();
  if (choice.ending) algorithm += join(", ending ", choice.ending->text());
  if (choice.zero_copy) algorithm = join(choice.zero_copy->text(), ", else ", algorithm);
  return {
      range_text(range, is_last),
      algorithm,
      on_gpus ? name(choice.launch.protocol) : "-",
      range.to == 0 ? seconds_text(range.from_seconds)
                    : join(seconds_text(range.from_seconds), " - ", seconds_text(range.to_seconds)),
      range.bound_gbps > 0 ? digits(range.bound_gbps) + " GB/s" : "-",
      join(choice.is_measured ? "measured: " : "", choice.zero_copy ? choice.zero_copy->reason : choice.plan.reason)};
}

// The plan that was asked for by name.
PlanChoice asked_for(const RankMachine& machine, const MachinePlanRequest& request) {
  AlgorithmSpec spec = parse_spec(request.algorithm, request.collective);
  if (spec.factors.empty()) spec.factors = request.factors;
  if (spec.parts == 0) spec.parts = request.parts;
  spec.zero_copy |= request.access == Access::kZeroCopy;
  AlgorithmArguments arguments = machine.arguments(request.collective, request.root);
  arguments.access = spec.zero_copy ? Access::kZeroCopy : Access::kStaged;
  const AlgorithmSpec checked = parse_spec(to_text(spec), request.collective);  // which refuses what it does not use
  return {spec.name, resolve(checked, arguments), join("asked for as '", request.algorithm, "'")};
}

void check(const Topology& topology, const MachinePlanRequest& request, int gpus) {
  if (request.ranks < 1 && gpus == 0) {
    fail(ErrorCode::kInvalidArgument, "the machine \"", topology.name,
         "\" has no GPUs, so say how many ranks its CPUs shall have (--ranks N)");
  }
  if (request.ranks > kMaxRanks || (request.ranks < 1 && gpus > kMaxRanks)) {
    fail(ErrorCode::kInvalidArgument, "a plan has at most ", kMaxRanks, " ranks, not ",
         request.ranks < 1 ? gpus : request.ranks, "; use fewer nodes, or --ranks N");
  }
  if (!has_root(request.collective) && request.root != 0) {
    fail(ErrorCode::kInvalidArgument, name(request.collective), " has no root; leave root ", request.root, " out");
  }
  const bool names_arguments = !request.factors.empty() || request.parts != 0 || request.access != Access::kStaged;
  if (request.algorithm.empty() && names_arguments) {
    fail(ErrorCode::kInvalidArgument, "factors, parts and access are for an algorithm; name one (--algorithm NAME)");
  }
}

}  // namespace

std::string MachinePlan::explain(double message_bytes) const {
  AlgorithmArguments arguments = machine.arguments(plan.plan().collective, plan.plan().root);
  return plait::explain(plan, machine.topology, machine.placement, arguments, message_bytes);
}

std::string MachinePlan::table() const {
  std::vector<Row> rows = {{"size", "algorithm", "protocol", "time", "bound", "why"}};
  for (const ChoiceRange& range : ranges) {
    rows.push_back(row_of(range, &range == &ranges.back(), machine.gpus.has_value()));
  }
  std::array<size_t, 6> widths = {};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) text += row[i] + std::string(widths[i] + 2 - row[i].size(), ' ');
    text += row.back() + "\n";
  }
  return text;
}

MachinePlan plan_for_machine(const Topology& topology, const MachinePlanRequest& request, const Settings& settings) {
  const auto gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
  check(topology, request, gpus);
  RankMachine machine = place_on(topology, request.ranks < 1 ? gpus : request.ranks, settings);
  if (has_root(request.collective) && request.root >= machine.ranks()) {
    fail(ErrorCode::kInvalidArgument, "root ", request.root, " does not exist; ranks are 0..", machine.ranks() - 1);
  }
  Tuner tuner(machine, settings, host_plan_limits(settings), machine.gpus.has_value());
  if (!request.algorithm.empty()) {
    PlanChoice choice = asked_for(machine, request);
    VerifiedPlan plan = verify(find_algorithm(choice.algorithm, request.collective).make(choice.arguments));
    return {std::move(machine), std::move(plan), std::move(choice.reason), {}};
  }
  const Query query{request.collective, request.bytes, request.root};
  std::vector<ChoiceRange> ranges = tuner.ranges(query, kLongestMessage);
  const PlanChoice plan = request.bytes == 0 ? ranges.back().choice.plan : tuner.choose(query).plan;
  return {std::move(machine), *tuner.plan(plan), plan.reason, std::move(ranges)};
}

}  // namespace plait
