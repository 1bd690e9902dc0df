// The trees of levels: along which the members of one list pass a message on.
#pragma once

#include <cstdint>
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
// A chain for each member but 0, which begins behind that member, goes once round all others, and ends at member 0:
// 0 <- 1 <- 3 <- 2, 0 <- 2 <- 1 <- 3, 0 <- 3 <- 2 <- 1. Going up all at once, they are a ring that reduce-scatters
// among the others, each of which sends its sum to member 0.
std::vector<Tree> chains_of_ring(int members, const Level& level);

// Trees of which each has member 0 as its root, so that a level may bring a message from it (broadcast_levels.hpp), or
// to it (units.hpp).
struct RootedTrees {
  int64_t (*count)(int members) = nullptr;
  TreesOf make = nullptr;
};
int64_t one_for_all(int members);
int64_t one_or_two(int members);
int64_t one_for_each_other(int members);
inline constexpr RootedTrees kBinomialTree{one_for_all, one_tree<add_binomial>};
inline constexpr RootedTrees kChain{one_for_all, one_tree<add_chain>};
inline constexpr RootedTrees kStar{one_for_all, one_tree<add_star>};
inline constexpr RootedTrees kDoubleBinaryTree{one_or_two, two_trees_of_first};
inline constexpr RootedTrees kChainsOfRing{one_for_each_other, chains_of_ring};

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
