// Trying all algorithms.
#include "tuner/candidates.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "plan/one_node.hpp"
#include "plan/proof_size.hpp"
#include "tuner/carried_flags.hpp"

namespace plait {
namespace {

// A plan of more operations is tried only where there is none of fewer: larger ones take seconds to prove.
constexpr int kFewOperations = 300'000;

std::optional<std::string> excess_of(const RankPlan& rank, const PlanLimits& limits) {
  int64_t operations = 0, places = 0;
  for (const Queue& queue : rank.queues) {
    operations += std::ssize(queue.operations);
    for (const Operation& it : queue.operations) places += std::ssize(it.destinations) + std::ssize(it.sources);
    if (!limits.any_engine && queue.engine != Engine::kSm) return join("has a queue of engine ", name(queue.engine));
  }
  struct Row {
    int64_t count;
    int most;
    const char* what;
  };
  for (const Row& row :
       {Row{std::ssize(rank.queues), limits.queues, "queues"}, Row{operations, limits.operations, "operations"},
        Row{places, limits.places, "places"}, Row{rank.signals, limits.signals, "signals"},
        Row{int64_t{rank.scratch_slots} + rank.host_slots, limits.slots, "slots"},
        Row{rank.host_slots, limits.host_memory ? limits.slots : 0, "slots in host memory"},
        Row{rank.messages, limits.messages ? rank.messages : 0, "messages from other nodes"}}) {
    if (row.count > row.most) return join("has ", row.count, " ", row.what, ", more than ", row.most);
  }
  if (std::ssize(rank.queues) < limits.least_queues) return join("has fewer queues than ", limits.least_queues);
  return std::nullopt;
}

class Finder {
 public:
  Finder(const RankMachine& machine, const PlanLimits& limits)
      : machine_(machine), limits_(limits), routes_(machine.topology, machine.placement) {}

  Candidates find(Collective collective, int root) {
    AlgorithmArguments arguments = machine_.arguments(collective, root);
    for (const int most : {kFewOperations, PlanBuilder::kMaxOperations}) {
      arguments.most_operations = most;
      found_.refusals.clear();
      for (const Algorithm& algorithm : algorithms()) {
        if (!serves(algorithm, collective)) continue;
        for (AlgorithmArguments& it : algorithm.candidates(arguments)) add(algorithm, std::move(it));
      }
      if (!found_.all.empty()) return std::move(found_);
    }
    fail(ErrorCode::kInvalidArgument, "no algorithm for ", name(collective), " fits ", machine_.topology.name, ":",
         found_.refusals);
  }

 private:
  void add(const Algorithm& algorithm, AlgorithmArguments arguments) {
    PlanChoice choice{std::string(algorithm.name), std::move(arguments), ""};
    std::optional<VerifiedPlan> plan;  // not kept: there are many, and some are large
    try {
      plan = verify(algorithm.make(choice.arguments));
    } catch (const PlanTooLarge& error) {
      return refuse(error.what());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      return refuse(error.what());
    }
    if (const auto excess = limits_.excess(*plan)) {
      return refuse(join(choice.text(), " needs more than this runtime has: ", *excess));
    }
    choice.arguments.most_operations = PlanBuilder::kMaxOperations;
    const LinkLoad load = link_load(*plan, machine_.topology, machine_.placement);
    for (const Protocol protocol : protocols_of(*plan)) {
      Candidate made{choice, protocol, {}, load.lower_bound(1), plan->report().steps};
      made.cost = cost_of(*plan, load, routes_, machine_.profile->costs, protocol);
      found_.all.push_back(std::move(made));
    }
  }

  std::vector<Protocol> protocols_of(const VerifiedPlan& plan) const {
    if (!machine_.gpus || !can_carry_flags(plan, DataType::kFloat32)) return {Protocol::kSimple};
    if (!machine_.gpus->lines) return {Protocol::kSimple, Protocol::kLl};
    return {Protocol::kSimple, Protocol::kLl, Protocol::kLl128};
  }

  void refuse(const std::string& why) { found_.refusals += join("\n  ", why); }

  const RankMachine& machine_;
  const PlanLimits& limits_;
  Routes routes_;
  Candidates found_;
};

}  // namespace

CostCurve cost_of(const VerifiedPlan& plan, const LinkLoad& load, Routes& routes, const Costs& costs,
                  Protocol protocol) {
  switch (protocol) {
    case Protocol::kLl:
      return cost_curve(plan, load, routes, costs, FlagPlace::kEvery8Bytes);
    case Protocol::kLl128:
      return cost_curve(plan, load, routes, costs, FlagPlace::kEvery128Bytes);
    case Protocol::kSimple:
      break;
  }
  return cost_curve(plan, load, routes, costs, FlagPlace::kBehindData);
}

std::optional<std::string> PlanLimits::excess(const VerifiedPlan& plan) const {
  if (const auto& unread = plan.report().unread_store; unread && !unread_stores) {
    return join(to_text(*unread), ", `", to_text(operation_at(plan.plan(), *unread)),
                "`, stores at another rank what nobody reads");
  }
  const auto find = [this](const Plan& performed) -> std::optional<std::string> {
    for (int rank = 0; rank < performed.rank_count(); ++rank) {
      if (const auto found = excess_of(performed.ranks[rank], *this)) return join("rank ", rank, " ", *found);
    }
    return std::nullopt;
  };
  return find(messages && spans_nodes(plan.plan()) ? on_one_node(plan.plan()) : plan.plan());
}

const Candidate& Candidates::cheapest(double bytes) const {
  constexpr double kSame = 1.001;
  const Candidate* best = nullptr;
  double least = 0;
  for (const Candidate& it : all) {
    const double seconds = it.cost.seconds(bytes);
    const bool is_better =
        best == nullptr || seconds * kSame < least || (seconds <= least * kSame && it.steps < best->steps);
    if (!is_better) continue;
    best = &it;
    least = seconds;
  }
  return *best;
}

Candidates find_candidates(const RankMachine& machine, const PlanLimits& limits, Collective collective, int root) {
  return Finder(machine, limits).find(collective, root);
}

}  // namespace plait
