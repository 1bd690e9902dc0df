// Double binary trees.
#include "algorithms/steps/two_trees.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace plait {
namespace {

int middle_of(int count) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(count))) - 1; }

// Adds positions [first, first + count) of `order` below `above`, in order.
void add_in_order(Tree& tree, int above, const std::vector<int>& order, int first, int count) {
  if (count == 0) return;
  const int left = middle_of(count);
  const int middle = order[first + left];
  if (middle != above) tree.add(above, middle);
  add_in_order(tree, middle, order, first, left);
  add_in_order(tree, middle, order, first + left + 1, count - left - 1);
}

// The order of the second tree.
void shift(std::vector<int>& order) {
  if (order.size() % 2 == 0) {
    std::reverse(order.begin(), order.end());
  } else {
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
}

}  // namespace

std::vector<Tree> two_trees(std::vector<int> order, int members) {
  const int count = static_cast<int>(order.size());
  std::vector<Tree> trees;
  for (int tree = 0; tree < 2; ++tree, shift(order)) {
    const int top = order[middle_of(count)];
    add_in_order(trees.emplace_back(top, members), top, order, 0, count);
  }
  return trees;
}

std::vector<Tree> two_trees_below(int root, std::vector<int> order, int members) {
  std::vector<Tree> trees;
  for (int tree = 0; tree < 2; ++tree, shift(order)) {
    add_in_order(trees.emplace_back(root, members), root, order, 0, static_cast<int>(order.size()));
  }
  return trees;
}

std::vector<int> roots_of_two_trees(int count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  const int first = order[middle_of(count)];
  shift(order);
  return {first, order[middle_of(count)]};
}

}  // namespace plait
