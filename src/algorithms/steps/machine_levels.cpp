// Levels of groups and nodes.
#include "algorithms/steps/machine_levels.hpp"

#include <algorithm>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/levels.hpp"

namespace plait {
namespace {

bool lie_on_one_node_each(const AlgorithmArguments& machine) {
  return std::all_of(machine.groups.begin(), machine.groups.end(), [&](const std::vector<int>& ranks) {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](int rank) { return node_of(machine, rank) == node_of(machine, ranks[0]); });
  });
}

}  // namespace

std::vector<std::vector<int>> ranks_within(const AlgorithmArguments& machine, Reach reach) {
  AlgorithmArguments it = machine;
  if (reach != Reach::kGroup) it.groups.clear();
  if (reach == Reach::kAll) it.node_of.clear();
  return groups_or_nodes(it);
}

std::vector<Reach> machine_reaches(const AlgorithmArguments& machine) {
  std::vector<Reach> reaches;
  size_t units = static_cast<size_t>(machine.ranks);
  for (const Reach reach : {Reach::kGroup, Reach::kNode, Reach::kAll}) {
    if (reach == Reach::kGroup && (machine.groups.empty() || !lie_on_one_node_each(machine))) continue;
    const size_t joined = ranks_within(machine, reach).size();
    if (joined == units) continue;
    // The last one is called all, whatever it is.
    reaches.push_back(joined == 1 ? Reach::kAll : reach);
    units = joined;
  }
  if (reaches.empty()) reaches.push_back(Reach::kAll);
  return reaches;
}

bool is_even(const AlgorithmArguments& machine, Reach reach) {
  const auto parts = ranks_within(machine, reach);
  return std::all_of(parts.begin(), parts.end(), [&](const auto& ranks) { return ranks.size() == parts[0].size(); });
}

std::vector<Level> machine_levels(const AlgorithmArguments& machine, std::string_view inner, std::string_view outer) {
  std::vector<Level> levels;
  for (const Reach reach : machine_reaches(machine)) {
    levels.push_back({.reach = reach, .algorithm = std::string(reach == Reach::kAll ? outer : inner)});
  }
  return levels;
}

std::vector<Level> usual_levels(const AlgorithmArguments& machine) {
  if (has_root(machine.collective)) return machine_levels(machine, "chain", "binomial");
  std::vector<Level> levels = machine_levels(machine, "flat", "ring");
  const bool even = std::all_of(levels.begin(), levels.end(), [&](auto& it) { return is_even(machine, it.reach); });
  for (Level& level : levels) level.leaders = even || level.reach == Reach::kAll ? 0 : 1;
  return levels;
}

// Zero-copy, a message goes down a tree by store, and up by load.
Direction best_direction(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy && machine.collective == Collective::kBroadcast) return Direction::kStore;
  if (machine.access == Access::kZeroCopy && machine.collective == Collective::kReduce) return Direction::kLoad;
  return on_gpus(machine) || !machine.shares.empty() ? Direction::kStore : Direction::kLoad;
}

std::vector<Level> with_directions(std::vector<Level> levels, const AlgorithmArguments& machine) {
  for (Level& level : levels) {
    if (level.direction || !find_level_algorithm(level.algorithm).direction) continue;
    level.direction = best_direction(machine);
  }
  return levels;
}

}  // namespace plait
