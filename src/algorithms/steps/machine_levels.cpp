// Levels of groups and nodes.
#include "algorithms/steps/machine_levels.hpp"

#include <algorithm>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/levels.hpp"

namespace plait {
namespace {

std::vector<std::vector<int>> joined_by(const AlgorithmArguments& machine, Reach reach) {
  AlgorithmArguments it = machine;
  if (reach != Reach::kGroup) it.groups.clear();
  if (reach == Reach::kAll) it.node_of.clear();
  return groups_or_nodes(it);
}

bool lie_on_one_node_each(const AlgorithmArguments& machine) {
  return std::all_of(machine.groups.begin(), machine.groups.end(), [&](const std::vector<int>& ranks) {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](int rank) { return node_of(machine, rank) == node_of(machine, ranks[0]); });
  });
}

}  // namespace

std::vector<Reach> machine_reaches(const AlgorithmArguments& machine) {
  std::vector<Reach> reaches;
  size_t units = static_cast<size_t>(machine.ranks);
  for (const Reach reach : {Reach::kGroup, Reach::kNode, Reach::kAll}) {
    if (reach == Reach::kGroup && (machine.groups.empty() || !lie_on_one_node_each(machine))) continue;
    const size_t joined = joined_by(machine, reach).size();
    if (joined == units) continue;
    // The last one is called all, whatever it is.
    reaches.push_back(joined == 1 ? Reach::kAll : reach);
    units = joined;
  }
  if (reaches.empty()) reaches.push_back(Reach::kAll);
  return reaches;
}

bool is_even(const AlgorithmArguments& machine, Reach reach) {
  const auto parts = joined_by(machine, reach);
  return std::all_of(parts.begin(), parts.end(), [&](const auto& ranks) { return ranks.size() == parts[0].size(); });
}

std::vector<Level> usual_levels(const AlgorithmArguments& machine) {
  std::vector<Level> levels;
  bool even = true;  // so far, and on the levels above
  for (const Reach reach : machine_reaches(machine)) even &= is_even(machine, reach);
  for (const Reach reach : machine_reaches(machine)) {
    Level& level = levels.emplace_back();
    level.reach = reach;
    level.algorithm = reach == Reach::kAll ? "ring" : "flat";
    if (reach != Reach::kAll && !even) level.leaders = 1;
  }
  return levels;
}

std::vector<Level> with_directions(std::vector<Level> levels, const AlgorithmArguments& machine) {
  for (Level& level : levels) {
    if (level.direction || !find_level_algorithm(level.algorithm).direction) continue;
    level.direction = on_gpus(machine) ? Direction::kStore : Direction::kLoad;
  }
  return levels;
}

}  // namespace plait
