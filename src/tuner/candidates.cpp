// Asks all algorithms for plans, and costs them.
#include "tuner/candidates.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/proof_size.hpp"
#include "plan/shape.hpp"

namespace plait {
namespace {

// A plan of more operations is tried only if there is none of fewer, since larger ones take seconds to prove. Over very
// many ranks even plans of log2 p steps have more.
int few_operations(int ranks) { return std::max(300'000, 96 * ranks); }

// How many pieces bind() makes at most of what an operation moves. In a reduction every chunk may be one: partial
// results are wider for some types, and then slots have gaps. Otherwise a piece ends where a block does.
int pieces_of(const Plan& plan, const Operation& operation) {
  if (operation.chunks == 0 || reduces(plan.collective)) return operation.chunks;
  const int per_block = std::max(1, plan.chunks_per_block);
  return (operation.chunk + operation.chunks - 1) / per_block - operation.chunk / per_block + 1;
}

// The demands of a rank's part of a plan on a runtime. A message that becomes stores takes an inbox and a signal at
// its receiver, and a copy at each end that has data.
struct RankNeeds {
  RankNeeds(const Plan& plan, const RankPlan& rank, bool messages_as_stores)
      : signals(rank.signals), slots(int64_t{rank.scratch_slots} + rank.host_slots), messages(rank.messages) {
    for (const Queue& queue : rank.queues) {
      for (const Operation& it : queue.operations) {
        const int pieces = pieces_of(plan, it);
        operations += it.kind == OpKind::kReduce ? pieces : 1;
        places += (std::ssize(it.destinations) + std::ssize(it.sources)) * pieces;
        const bool is_message = it.kind == OpKind::kSend || it.kind == OpKind::kReceive;
        if (messages_as_stores && is_message) add_copy(it, pieces);
      }
    }
    if (messages_as_stores) signals += std::exchange(messages, 0);
  }

  int64_t operations = 0, places = 0, signals, slots, messages;

 private:
  void add_copy(const Operation& message, int pieces) {
    operations += pieces;
    places += pieces;
    if (message.kind == OpKind::kReceive) slots += message.chunks;
  }
};

std::optional<std::string> excess_of(const Plan& plan, const RankPlan& rank, const PlanLimits& limits,
                                     bool messages_as_stores) {
  for (const Queue& queue : rank.queues) {
    if (!limits.any_engine && queue.engine != Engine::kSm) return join("has a queue of engine ", name(queue.engine));
  }
  struct Row {
    int64_t count, most;
    const char* what;
  };
  const RankNeeds needs(plan, rank, messages_as_stores);
  for (const Row& row :
       {Row{std::ssize(rank.queues), limits.queues, "queues"}, Row{needs.operations, limits.operations, "operations"},
        Row{needs.places, limits.places, "places"}, Row{needs.signals, limits.signals, "signals"},
        Row{needs.slots, limits.slots, "slots"},
        Row{rank.host_slots, limits.host_memory ? limits.slots : 0, "slots in host memory"},
        Row{needs.messages, limits.messages ? needs.messages : 0, "messages from other nodes"}}) {
    if (row.count > row.most) return join("has ", row.count, " ", row.what, ", more than ", row.most);
  }
  if (std::ssize(rank.queues) < limits.least_queues) return join("has fewer queues than ", limits.least_queues);
  return std::nullopt;
}

// The same algorithm, in more parts.
bool has_more_parts(const PlanChoice& choice, const PlanChoice& than) {
  AlgorithmArguments alike = than.arguments;
  alike.parts = choice.arguments.parts;
  return choice.algorithm == than.algorithm && choice.arguments.parts > than.arguments.parts &&
         choice.arguments == alike;
}

int count_nodes(const AlgorithmArguments& arguments) {
  return arguments.node_of.empty() ? 1 : std::ranges::max(arguments.node_of) + 1;
}

bool is_unsuited(const PlanChoice& choice, const UnsuitedAlgorithm& by) {
  const AlgorithmArguments& arguments = choice.arguments;
  const auto is_meant = [&](const std::string& algorithm, int radix) {
    return algorithm == by.name && radix >= by.least_radix;
  };
  const bool is_named =
      is_meant(choice.algorithm, arguments.radix) || std::ranges::any_of(arguments.levels, [&](const Level& it) {
        return it.reach == Reach::kAll && is_meant(it.algorithm, it.radix);
      });
  const bool is_collective =
      by.collectives.empty() || std::ranges::find(by.collectives, arguments.collective) != by.collectives.end();
  return is_named && is_collective && count_nodes(arguments) <= by.most_nodes;
}

std::vector<Protocol> protocols_of(const Plan& plan, const RankMachine& machine) {
  if (!machine.gpus || !shape_of(plan).can_carry_flags) return {Protocol::kSimple};
  if (!machine.gpus->lines) return {Protocol::kSimple, Protocol::kLl};
  return {Protocol::kSimple, Protocol::kLl, Protocol::kLl128};
}

class Finder {
 public:
  Finder(const RankMachine& machine, const PlanLimits& limits, const TunerProgress& progress)
      : machine_(machine), limits_(limits), progress_(progress), routes_(machine.topology, machine.placement) {}

  Candidates find(Collective collective, int root) {
    AlgorithmArguments arguments = machine_.arguments(collective, root);
    for (const int most : {few_operations(machine_.ranks()), PlanBuilder::kMaxOperations}) {
      arguments.most_operations = most;
      found_.left_out.clear();
      const std::vector<PlanChoice> choices = choices_for(arguments);
      for (const PlanChoice& choice : choices) {
        if (progress_)
          progress_(join("trying ", choice.text(), ", ", &choice - &choices[0] + 1, " of ", choices.size()));
        add(choice);
      }
      if (!found_.all.empty()) return std::move(found_);
    }
    refuse_all(machine_, collective, found_.left_out);
  }

 private:
  static std::vector<PlanChoice> choices_for(const AlgorithmArguments& arguments) {
    std::vector<PlanChoice> choices;
    for (const Algorithm& algorithm : algorithms()) {
      if (!serves(algorithm, arguments.collective)) continue;
      for (AlgorithmArguments& it : algorithm.candidates(arguments)) {
        choices.push_back({std::string(algorithm.name), std::move(it), ""});
      }
    }
    return choices;
  }

  void add(PlanChoice choice) {
    for (const UnsuitedAlgorithm& it : machine_.profile->unsuited) {
      if (is_unsuited(choice, it)) return leave_out(choice, it.why, false);
    }
    // In more parts it has more chunks and more operations.
    for (const LeftOut& it : found_.left_out) {
      if (it.too_large && has_more_parts(choice, it.plan)) return leave_out(choice, it.why, true);
    }
    try {
      for (Candidate& it : candidates_of(choice, machine_, limits_, routes_)) found_.all.push_back(std::move(it));
    } catch (const PlanTooLarge& error) {
      leave_out(choice, error.what(), true);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;
      leave_out(choice, error.what(), false);
    }
  }

  void leave_out(const PlanChoice& choice, const std::string& why, bool too_large) {
    found_.left_out.push_back({choice, why, too_large});
  }

  const RankMachine& machine_;
  const PlanLimits& limits_;
  const TunerProgress& progress_;
  Routes routes_;
  Candidates found_;
};

}  // namespace

FlagPlace flags_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLl:
      return FlagPlace::kEvery8Bytes;
    case Protocol::kLl128:
      return FlagPlace::kEvery128Bytes;
    case Protocol::kSimple:
      break;
  }
  return FlagPlace::kBehindData;
}

CostCurve cost_of(const PlanModel& plan, const Costs& costs, Protocol protocol) {
  return plan.curve(costs, flags_of(protocol));
}

std::optional<std::string> PlanLimits::excess(const VerifiedPlan& plan) const {
  if (const auto& unread = plan.report().unread_store; unread && !unread_stores) {
    return join(to_text(*unread), ", `", to_text(operation_at(plan.plan(), *unread)),
                "`, stores at another rank what nobody reads");
  }
  return excess(plan.plan());
}

std::optional<std::string> PlanLimits::excess(const Plan& plan) const {
  const bool as_stores = messages && spans_nodes(plan);
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    if (const auto found = excess_of(plan, plan.ranks[rank], *this, as_stores)) return join("rank ", rank, " ", *found);
  }
  return std::nullopt;
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

const Candidate* Candidates::find(const PlanChoice& choice, Protocol protocol) const {
  const std::string text = choice.text();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Candidate& it) { return it.protocol == protocol && it.choice.text() == text; });
  return found == all.end() ? nullptr : &*found;
}

void Candidates::drop(LeftOut it) {
  const std::string text = it.plan.text();
  left_out.push_back(std::move(it));
  std::erase_if(all, [&](const Candidate& one) { return one.choice.text() == text; });
}

std::vector<Candidate> candidates_of(const PlanChoice& choice, const RankMachine& machine, const PlanLimits& limits,
                                     Routes& routes) {
  const Plan plan = find_algorithm(choice.algorithm, choice.arguments.collective).make(choice.arguments);
  if (const auto excess = limits.excess(plan)) {
    fail(ErrorCode::kInvalidArgument, choice.text(), " needs more than this runtime has: ", *excess);
  }
  const PlanModel model(plan, routes);
  PlanChoice usual = choice;
  usual.arguments.most_operations = PlanBuilder::kMaxOperations;
  std::vector<Candidate> all;
  for (const Protocol protocol : protocols_of(plan, machine)) {
    all.push_back({usual, protocol, cost_of(model, machine.profile->costs, protocol), model.load().lower_bound(1),
                   model.steps()});
  }
  return all;
}

Candidates find_candidates(const RankMachine& machine, const PlanLimits& limits, Collective collective, int root,
                           const TunerProgress& progress) {
  return Finder(machine, limits, progress).find(collective, root);
}

void refuse_all(const RankMachine& machine, Collective collective, const std::vector<LeftOut>& left_out) {
  std::string reasons;
  std::string_view algorithm;  // named last; the first plan of each algorithm speaks for all of them
  for (const LeftOut& it : left_out) {
    if (it.plan.algorithm == algorithm) continue;
    algorithm = it.plan.algorithm;
    reasons += join("\n  ", it.why);
  }
  fail(ErrorCode::kInvalidArgument, "no algorithm for ", name(collective), " fits ", counted(machine.ranks(), "rank"),
       " of ", machine.topology.name, ":", reasons);
}

}  // namespace plait
