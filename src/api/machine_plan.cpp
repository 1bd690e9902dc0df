// Choosing by the links.
#include "api/machine_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "api/live_choice.hpp"
#include "base/error.hpp"
#include "model/explain.hpp"
#include "model/link_load.hpp"
#include "plan/conditions.hpp"
#include "plan/proof_size.hpp"
#include "tuner/selection.hpp"

namespace plait {
namespace {

constexpr double kSame = 1.01;  // bounds that differ by less than this factor count as equal

struct Candidate {
  VerifiedPlan plan;
  double seconds;  // at least, for each byte of the message
};

std::string bandwidth_text(double seconds) {
  if (seconds <= 0) return "no link is used";
  char text[48];
  std::snprintf(text, sizeof text, "%.3g GB/s of message at most", 1e-9 / seconds);
  return text;
}

bool better(const Candidate& a, const Candidate& b) {
  if (a.seconds * kSame < b.seconds) return true;
  return a.seconds <= b.seconds * kSame && a.plan.report().steps < b.plan.report().steps;
}

// Proves and costs one candidate; none, and why, where it is not for this machine.
std::optional<Candidate> candidate(const Algorithm& algorithm, const Topology& topology, const Placement& placement,
                                   const AlgorithmArguments& arguments, std::string& refusals) {
  try {
    VerifiedPlan plan = verify(algorithm.make(arguments));
    const double seconds = link_load(plan, topology, placement).lower_bound(1);
    return Candidate{std::move(plan), seconds};
  } catch (const PlanTooLarge& error) {
    refusals += join("\n  ", error.what());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    refusals += join("\n  ", error.what());
  }
  return std::nullopt;
}

// The first of an algorithm's candidates for each direction.
std::vector<AlgorithmArguments> one_a_direction(const Algorithm& algorithm, const AlgorithmArguments& machine) {
  std::vector<AlgorithmArguments> first;
  for (const AlgorithmArguments& it : algorithm.candidates(machine)) {
    const auto alike = [&](const AlgorithmArguments& other) { return other.direction == it.direction; };
    if (std::none_of(first.begin(), first.end(), alike)) first.push_back(it);
  }
  if (first.empty()) first.push_back(resolve({.name = std::string(algorithm.name)}, machine));  // who says why not
  for (AlgorithmArguments& it : first) {
    if (algorithm.uses.parts) it.parts = machine.parts;
  }
  return first;
}

// The best plan, and why.
std::pair<VerifiedPlan, std::string> choose(const Topology& topology, const Placement& placement,
                                            const AlgorithmArguments& arguments) {
  std::optional<Candidate> best;  // the only one that is kept: plans may be large
  int fitting = 0;
  std::string refusals;
  for (const Algorithm& algorithm : algorithms()) {
    const auto& served = algorithm.collectives;
    if (std::find(served.begin(), served.end(), arguments.collective) == served.end()) continue;
    for (AlgorithmArguments it : one_a_direction(algorithm, arguments)) {
      it.factors = arguments.factors.empty() || !algorithm.uses.factors ? it.factors : arguments.factors;
      std::optional<Candidate> next = candidate(algorithm, topology, placement, it, refusals);
      if (!next) continue;
      ++fitting;
      if (!best || better(*next, *best)) best = std::move(next);
    }
  }
  if (!best) {
    fail(ErrorCode::kInvalidArgument, "no algorithm for ", name(arguments.collective), " fits this machine:", refusals);
  }
  const int steps = best->plan.report().steps;
  const std::string figures = join(bandwidth_text(best->seconds), ", in ", steps, steps == 1 ? " step" : " steps");
  const std::string reason =
      fitting == 1 ? join("the only algorithm that fits: ", figures)
                   : join("the best bound of ", fitting, " algorithms that fit, then the fewest steps: ", figures);
  return {std::move(best->plan), reason};
}

}  // namespace

std::string MachinePlan::explain(double message_bytes) const {
  return plait::explain(plan, topology, placement, arguments, message_bytes);
}

std::string MachinePlan::live(size_t message_bytes, const Settings& settings) const {
  return live_choice(topology, placement, plan.plan().collective, plan.plan().root, message_bytes, settings);
}

MachinePlan plan_for_machine(const Topology& topology, const MachinePlanRequest& request) {
  const auto gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
  if (request.ranks < 1 && gpus == 0) {
    fail(ErrorCode::kInvalidArgument, "the machine \"", topology.name,
         "\" has no GPUs, so say how many ranks its CPUs shall have (--ranks N)");
  }
  const int ranks = request.ranks < 1 ? gpus : request.ranks;
  if (ranks > kMaxRanks) {
    fail(ErrorCode::kInvalidArgument, "a plan has at most ", kMaxRanks, " ranks, not ", ranks,
         "; use fewer nodes, or --ranks N");
  }
  Placement placement = place_ranks(topology, ranks);
  AlgorithmArguments arguments = arguments_for(topology, placement, request.collective);
  arguments.root = request.root;
  arguments.factors = request.factors;
  arguments.parts = request.parts;
  arguments.reach = request.reach;
  const auto asked_for = [&] {
    AlgorithmSpec spec = parse_spec(request.algorithm, request.collective);
    if (spec.factors.empty()) spec.factors = request.factors;
    if (spec.parts == 0) spec.parts = request.parts;
    const Algorithm& algorithm = find_algorithm(spec.name, request.collective);
    return std::pair(verify(algorithm.make(resolve(spec, arguments))), std::string("asked for"));
  };
  auto [plan, reason] = request.algorithm.empty() ? choose(topology, placement, arguments) : asked_for();
  return {topology, std::move(placement), std::move(arguments), std::move(plan), std::move(reason)};
}

}  // namespace plait
