// The trees of levels: along which the members of one list pass a message on.
#pragma once

#include <vector>

#include "algorithms/level.hpp"
#include "algorithms/steps/tree.hpp"

namespace plait {

// Adds a tree over `members`, whose first is already in the tree.
using AddToTree = void (*)(Tree& tree, const std::vector<int>& members, const Level& level);
void add_binomial(Tree& tree, const std::vector<int>& members, const Level& level);
void add_chain(Tree& tree, const std::vector<int>& members, const Level& level);
void add_star(Tree& tree, const std::vector<int>& members, const Level& level);

// The trees over members 0 to n-1, among which the message is divided into equal pieces. The first trees' roots are
// members 0, 1, …
using TreesOf = std::vector<Tree> (*)(int members, const Level& level);

template <AddToTree kAdd>
std::vector<Tree> one_tree(int members, const Level& level);
// Members 0 and 1 are the roots of a double binary tree.
std::vector<Tree> two_trees_of_first_two(int members, const Level& level);
// Member 0 stands above both trees, which are of all others.
std::vector<Tree> two_trees_of_first(int members, const Level& level);

// Numbers from 0 to n-1.
std::vector<int> members_in_order(int members);

// How each tree's piece of `range` travels.
std::vector<TreeShape> shapes_of_trees(const std::vector<Tree>& trees, const std::vector<QueueId>& queues,
                                       ChunkRange range, const Level& level);

template <AddToTree kAdd>
std::vector<Tree> one_tree(int members, const Level& level) {
  std::vector<Tree> trees = {Tree(0, members)};
  kAdd(trees[0], members_in_order(members), level);
  return trees;
}

}  // namespace plait
