// Units of ranks.
#include "algorithms/steps/units.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/levels.hpp"
#include "algorithms/steps/machine_levels.hpp"

namespace plait {
namespace {

class Partition {
 public:
  Partition(const Algorithm& algorithm, const AlgorithmArguments& arguments)
      : algorithm_(algorithm), arguments_(arguments), root_(has_root(arguments.collective) ? arguments.root : 0) {
    for (int rank = 0; rank < arguments.ranks; ++rank) units_.push_back({rank});
  }

  // Joins units, and returns those that were joined, block by block.
  std::vector<Units> join_on(const Level& level) {
    std::vector<Units> blocks = level.reach == Reach::kFactor ? neighbours(level) : within(level);
    units_.clear();
    for (Units& block : blocks) {
      if (has_root(arguments_.collective)) bring_root_first(block);
      std::vector<int>& joined = units_.emplace_back();
      for (const std::vector<int>& unit : block) joined.insert(joined.end(), unit.begin(), unit.end());
    }
    return blocks;
  }
  size_t units() const { return units_.size(); }

 private:
  void bring_root_first(Units& block) const {
    const auto of_root = std::find_if(block.begin(), block.end(), [&](const auto& unit) { return unit[0] == root_; });
    if (of_root != block.end()) std::rotate(block.begin(), of_root, block.end());
  }

  std::vector<Units> neighbours(const Level& level) const {
    const int count = static_cast<int>(units_.size());
    if (count % level.factor != 0) {
      refuse(algorithm_, "level '", to_text(level), "' cannot join ", count,
             " units; the product of the factors has to be the number of ranks, ", arguments_.ranks);
    }
    std::vector<Units> blocks;
    for (auto at = units_.begin(); at != units_.end(); at += level.factor) blocks.emplace_back(at, at + level.factor);
    return blocks;
  }

  // Groups name their ranks in order. In nodes, and among all, ranks come in order from the root on.
  std::vector<std::vector<int>> parts_within(const Level& level) const {
    std::vector<std::vector<int>> parts = ranks_within(arguments_, level.reach);
    if (level.reach == Reach::kGroup) return parts;
    for (std::vector<int>& ranks : parts) {
      std::rotate(ranks.begin(), std::lower_bound(ranks.begin(), ranks.end(), root_), ranks.end());
    }
    return parts;
  }

  // Units come in the order in which their leaders are named.
  std::vector<Units> within(const Level& level) const {
    const std::vector<std::vector<int>> parts = parts_within(level);
    std::vector<int> unit_of_leader(arguments_.ranks, -1), part_of(arguments_.ranks, -1);
    for (size_t unit = 0; unit < units_.size(); ++unit) unit_of_leader[units_[unit][0]] = static_cast<int>(unit);
    for (size_t part = 0; part < parts.size(); ++part) {
      for (const int rank : parts[part]) part_of[rank] = static_cast<int>(part);
    }
    std::vector<Units> blocks;
    for (const std::vector<int>& ranks : parts) {
      Units block;
      for (const int rank : ranks) {
        if (unit_of_leader[rank] >= 0) block.push_back(checked(units_[unit_of_leader[rank]], part_of, level));
      }
      if (!block.empty()) blocks.push_back(std::move(block));
    }
    return blocks;
  }

  const std::vector<int>& checked(const std::vector<int>& unit, const std::vector<int>& part_of,
                                  const Level& level) const {
    for (const int rank : unit) {
      if (part_of[rank] == part_of[unit[0]]) continue;
      refuse(algorithm_, "level '", to_text(level), "' comes too late: a level before it joined ranks ", unit[0],
             " and ", rank, ", which are in different ", reach_text(level), "s");
    }
    return unit;
  }

  const Algorithm& algorithm_;
  const AlgorithmArguments& arguments_;
  const int root_;
  Units units_;
};

// Adds what is below the leader of the first unit, who is in the tree: the leaders of the others.
void add_leaders(Tree& tree, const Tree& of_units, const Units& block) {
  for (const int unit : of_units.order) {
    const int above = of_units.parent[unit];
    if (above >= 0) tree.add(block[above][0], block[unit][0]);
  }
}

}  // namespace

std::vector<std::vector<Units>> blocks_of(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                                          const std::vector<Level>& levels) {
  Partition partition(algorithm, arguments);
  std::vector<std::vector<Units>> blocks;
  for (const Level& level : levels) blocks.push_back(partition.join_on(level));
  if (partition.units() != 1) {
    refuse(algorithm, "the levels leave ", partition.units(),
           " units apart; the product of the factors has to be the number of ranks, ", arguments.ranks,
           ", or the last level 'all'");
  }
  return blocks;
}

int64_t pieces_of_trees(const std::vector<Level>& levels, const std::vector<std::vector<Units>>& blocks) {
  int64_t pieces = 1;
  for (size_t i = 0; i < levels.size(); ++i) {
    const RootedTrees& trees = find_level_algorithm(levels[i].algorithm).reduce;
    for (const Units& block : blocks[i]) {
      pieces = std::min(kTooManyChunks, std::lcm(pieces, trees.count(static_cast<int>(block.size()))));
    }
  }
  return pieces;
}

std::vector<Tree> trees_over(const AlgorithmArguments& arguments, const std::vector<Level>& levels,
                             const std::vector<std::vector<Units>>& blocks) {
  const auto pieces = static_cast<size_t>(pieces_of_trees(levels, blocks));
  std::vector<Tree> all(pieces, Tree(arguments.root, arguments.ranks));
  for (size_t i = levels.size(); i-- > 0;) {
    for (const Units& block : blocks[i]) {
      const std::vector<Tree> trees =
          find_level_algorithm(levels[i].algorithm).reduce.make(static_cast<int>(block.size()), levels[i]);
      for (size_t piece = 0; piece < pieces; ++piece) add_leaders(all[piece], trees[piece % trees.size()], block);
    }
  }
  return all;
}

Tree tree_over(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels) {
  return trees_over(arguments, levels, blocks_of(algorithm, arguments, levels)).at(0);
}

}  // namespace plait
