// Finds who gives to whom, in plans whose ranks give straight to those that need something.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// Whether `to` needs a part of the input of `from`. The two may be the same rank.
bool gives(const AlgorithmArguments& arguments, int from, int to);
// The other ranks that need a part of the input of `rank`, and those of whose inputs it needs a part. The next rank
// comes first.
std::vector<int> takers_from(const AlgorithmArguments& arguments, int rank);
std::vector<int> givers_to(const AlgorithmArguments& arguments, int rank);
// How many pairs of different ranks give and get. A plan has an operation for each, and more.
int64_t pair_count(const AlgorithmArguments& arguments);

// Something for each pair of ranks that give and get, in either order. Where there is a root, it is in every pair, so
// that the table has two cells a rank.
template <class Cell>
class PairTable {
 public:
  explicit PairTable(const AlgorithmArguments& arguments)
      : ranks_(static_cast<size_t>(arguments.ranks)),
        root_(has_root(arguments.collective) ? arguments.root : kNoRoot),
        cells_(ranks_ * (root_ == kNoRoot ? ranks_ : 2)) {}

  Cell& at(int first, int second) { return cells_[index(first, second)]; }
  const Cell& at(int first, int second) const { return cells_[index(first, second)]; }

 private:
  static constexpr int kNoRoot = -1;

  size_t index(int first, int second) const {
    const auto row = static_cast<size_t>(first), column = static_cast<size_t>(second);
    if (root_ == kNoRoot) return row * ranks_ + column;
    return first == root_ ? column : ranks_ + row;
  }

  size_t ranks_;
  int root_;
  std::vector<Cell> cells_;
};

}  // namespace plait
