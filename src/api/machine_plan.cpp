// Choosing by the links.
#include "api/machine_plan.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// Why algorithms are not for a machine: each reason once, with all that have it.
class Refusals {
 public:
  void add(std::string_view algorithm, std::string_view reason) {
    const std::string prefix = join("algorithm ", algorithm, ": ");
    const bool names_it = reason.starts_with(prefix);
    if (names_it) reason.remove_prefix(prefix.size());
    const auto same = std::ranges::find(reasons_, reason, &Reason::text);
    if (same == reasons_.end()) {
      reasons_.push_back({names_it ? std::string(algorithm) : "", std::string(reason)});
    } else {
      same->algorithms += join(", ", algorithm);
    }
  }

  // For the end of a line.
  std::string text() const {
    if (reasons_.size() == 1) return " " + reasons_[0].text;
    std::string text;
    for (const Reason& reason : reasons_) {
      text += join("\n  ", reason.algorithms, reason.algorithms.empty() ? "" : ": ", reason.text);
    }
    return text;
  }

 private:
  struct Reason {
    std::string algorithms, text;
  };
  std::vector<Reason> reasons_;
};

// Proves and costs one algorithm's plan; none, and why, where it is not for this machine.
std::optional<Candidate> candidate(const Algorithm& algorithm, const Topology& topology, const Placement& placement,
                                   const AlgorithmArguments& arguments, Refusals& refusals) {
  try {
    VerifiedPlan plan = verify(algorithm.make(fitted(algorithm, arguments)));
    const double seconds = link_load(plan, topology, placement).lower_bound(1);
    return Candidate{std::move(plan), seconds};
  } catch (const PlanTooLarge& error) {
    refusals.add(algorithm.name, error.what());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    refusals.add(algorithm.name, error.what());
  }
  return std::nullopt;
}

// The best plan, and why.
std::pair<VerifiedPlan, std::string> choose(const Topology& topology, const Placement& placement,
                                            const AlgorithmArguments& arguments) {
  std::optional<Candidate> best;  // the only one that is kept: plans may be large
  int fitting = 0;
  Refusals refusals;
  for (const Algorithm& algorithm : algorithms()) {
    const auto& served = algorithm.collectives;
    if (std::find(served.begin(), served.end(), arguments.collective) == served.end()) continue;
    std::optional<Candidate> next = candidate(algorithm, topology, placement, arguments, refusals);
    if (!next) continue;
    ++fitting;
    if (!best || better(*next, *best)) best = std::move(next);
  }
  if (!best) {
    fail(ErrorCode::kInvalidArgument, "no algorithm for ", name(arguments.collective),
         " fits this machine:", refusals.text());
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
  arguments.pipeline = request.pipeline;
  arguments.reach = request.reach;
  const auto asked_for = [&] {
    const Choice choice = parse_choice(request.algorithm, request.collective);
    const Algorithm& algorithm = find_algorithm(choice.algorithm, request.collective);
    if (!choice.arguments.factors.empty()) arguments.factors = choice.arguments.factors;
    if (choice.arguments.pipeline != 1) arguments.pipeline = choice.arguments.pipeline;
    AlgorithmArguments complete = fitted(algorithm, arguments);
    const bool names_engine = algorithm.only_copies && request.algorithm.find('(') != std::string::npos;
    if (names_engine) complete.engine = choice.arguments.engine;
    return std::pair(verify(algorithm.make(complete)), std::string("asked for"));
  };
  auto [plan, reason] = request.algorithm.empty() ? choose(topology, placement, arguments) : asked_for();
  return {topology, std::move(placement), std::move(arguments), std::move(plan), std::move(reason)};
}

}  // namespace plait
