// Makes folded plans.
#include "algorithms/folding.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "algorithms/steps/machine_levels.hpp"
#include "plan/fold_proof.hpp"

namespace plait {
namespace {

// `factor` nodes that change places in pairs, or move on by one.
std::vector<NodeDigit> digits_of_level(int factor, const Level& level) {
  const bool is_tree = level.algorithm == "chain" || level.algorithm == "binomial";
  if (is_tree || level.leaders > 0) return {{factor, true}};
  const bool halves = level.algorithm == "rabenseifner" || level.algorithm == "recursive_doubling";
  if (!halves) return {{factor, false}};
  if (!std::has_single_bit(static_cast<unsigned>(factor))) return {{factor, true}};
  std::vector<NodeDigit> pairs;
  for (; factor > 1; factor /= 2) pairs.push_back({2, false});
  return pairs;
}

// Ranks that a level's units have once it has joined those of `before` ranks; 0 where that is not one number.
int ranks_joined(const AlgorithmArguments& arguments, const Level& level, int before) {
  if (level.reach == Reach::kFactor) return before * level.factor;
  if (level.reach == Reach::kAll) return arguments.ranks;
  const auto parts = ranks_within(arguments, level.reach);
  return parts.empty() || !is_even(arguments, level.reach) ? 0 : static_cast<int>(parts[0].size());
}

// The digits of the levels that join nodes. None where a level joins a part of a node with others.
std::vector<NodeDigit> digits_of_levels(const AlgorithmArguments& arguments, const std::vector<Level>& levels,
                                        int nodes) {
  const int each = arguments.ranks / nodes;
  std::vector<NodeDigit> digits;
  int ranks = 1;
  for (const Level& level : levels) {
    const int joined = ranks_joined(arguments, level, ranks);
    if (joined <= 0 || joined % ranks != 0) return {};
    const int from = std::max(ranks, each);
    if (joined > each) {
      if (joined % from != 0) return {};
      const std::vector<NodeDigit> more = digits_of_level(joined / from, level);
      digits.insert(digits.end(), more.begin(), more.end());
    }
    ranks = joined;
  }
  return ranks == arguments.ranks ? digits : std::vector<NodeDigit>();
}

// Cuts a digit that goes from within racks beyond them, and keeps its lower part.
std::vector<NodeDigit> with_whole_racks(const std::vector<NodeDigit>& digits, int rack_nodes) {
  std::vector<NodeDigit> cut;
  int nodes = 1;
  for (const NodeDigit& it : digits) {
    const int joined = nodes * it.factor;
    const bool is_across = nodes < rack_nodes && rack_nodes < joined;
    if (is_across && rack_nodes % nodes == 0 && joined % rack_nodes == 0) {
      cut.push_back({rack_nodes / nodes, true});
      cut.push_back({joined / rack_nodes, it.is_fixed});
    } else {
      cut.push_back(it);
    }
    nodes = joined;
  }
  return cut;
}

std::vector<Level> levels_of_arguments(const AlgorithmArguments& arguments) {
  if (!arguments.levels.empty() || arguments.factors.empty()) return arguments.levels;
  std::vector<Level> levels;
  for (const int factor : arguments.factors) levels.push_back({.factor = factor, .algorithm = "ring"});
  return levels;
}

FoldedPlan make_into(PlanFold fold, const Algorithm& algorithm, AlgorithmArguments arguments) {
  arguments.most_operations = kMaxFoldedOperations;
  arguments.fold = &fold;
  Plan plan = algorithm.make(arguments);
  return {std::move(plan), std::move(fold)};
}

}  // namespace

FoldedPlan make_folded(const Algorithm& algorithm, AlgorithmArguments arguments, const NodeShifts& shifts) {
  return make_into(PlanFold(shifts), algorithm, std::move(arguments));
}

PlanReport prove_folded(const Algorithm& algorithm, AlgorithmArguments arguments, const FoldedPlan& folded) {
  const FoldAction action(folded);
  return prove(make_into(PlanFold(folded.fold.shifts(), action), algorithm, std::move(arguments)), action);
}

std::vector<std::vector<NodeDigit>> likely_shifts(const AlgorithmArguments& arguments, int nodes, int rack_nodes) {
  std::vector<std::vector<NodeDigit>> guesses;
  if (nodes < 2 || arguments.ranks % nodes != 0) return guesses;
  const auto add = [&](const std::vector<NodeDigit>& whole) {
    std::vector<NodeDigit> digits = with_whole_racks(whole, rack_nodes);
    std::erase_if(digits, [](const NodeDigit& it) { return it.factor == 1; });
    const bool shifts = std::any_of(digits.begin(), digits.end(), [](const NodeDigit& it) { return !it.is_fixed; });
    if (shifts && std::find(guesses.begin(), guesses.end(), digits) == guesses.end())
      guesses.push_back(std::move(digits));
  };
  add(digits_of_levels(arguments, levels_of_arguments(arguments), nodes));
  if (arguments.levels.empty()) add(digits_of_levels(arguments, usual_levels(arguments), nodes));
  add({{nodes, false}});
  add(digits_of_level(nodes, {.algorithm = "rabenseifner"}));
  return guesses;
}

}  // namespace plait
