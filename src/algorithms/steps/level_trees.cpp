// Trees of levels.
#include "algorithms/steps/level_trees.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "algorithms/steps/two_trees.hpp"

namespace plait {

void add_binomial(Tree& tree, const std::vector<int>& members, const Level& level) {
  add_knomial(tree, members, level.radix);
}

void add_chain(Tree& tree, const std::vector<int>& members, const Level&) {
  for (size_t x = 1; x < members.size(); ++x) tree.add(members[x - 1], members[x]);
}

void add_star(Tree& tree, const std::vector<int>& members, const Level&) {
  for (size_t x = 1; x < members.size(); ++x) tree.add(members[0], members[x]);
}

int64_t one_for_all(int) { return 1; }
int64_t one_or_two(int members) { return members > 2 ? 2 : 1; }
int64_t one_for_each_other(int members) { return std::max(1, members - 1); }

std::vector<int> members_in_order(int members) {
  std::vector<int> order(members);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<Tree> two_trees_of_first_two(int members, const Level&) {
  if (members == 1) return {Tree(0, 1)};
  std::vector<int> order = members_in_order(members);
  const std::vector<int> roots = roots_of_two_trees(members);
  // The first two change places with whoever stands where the roots are.
  std::swap(order[0], order[roots[0]]);
  std::swap(*std::find(order.begin(), order.end(), 1), order[roots[1]]);
  return two_trees(order, members);
}

std::vector<Tree> two_trees_of_first(int members, const Level& level) {
  if (members <= 2) return one_tree<add_chain>(members, level);
  std::vector<int> others = members_in_order(members);
  others.erase(others.begin());
  return two_trees_below(0, std::move(others), members);
}

std::vector<Tree> chains_of_ring(int members, const Level& level) {
  const int others = members - 1;
  if (others <= 1) return one_tree<add_chain>(members, level);
  std::vector<Tree> chains(others, Tree(0, members));
  for (int i = 0; i < others; ++i) {
    int above = 0;
    for (int hops = 0; hops < others; ++hops) {
      const int below = 1 + (i + others - hops) % others;
      chains[i].add(std::exchange(above, below), below);
    }
  }
  return chains;
}

std::vector<TreeShape> shapes_of_trees(const std::vector<Tree>& trees, const std::vector<QueueId>& queues,
                                       ChunkRange range, const Level& level) {
  std::vector<TreeShape> shapes(trees.size());
  const int pieces = static_cast<int>(trees.size()), chunks = range.count / pieces;
  for (int i = 0; i < pieces; ++i) {
    TreeShape& shape = shapes[i];
    shape.queues = {queues};
    shape.first_chunk = range.first + i * chunks;
    shape.parts = level.parts;
    shape.part_chunks = chunks / level.parts;
    shape.direction = level.direction.value_or(Direction::kLoad);
  }
  return shapes;
}

}  // namespace plait
