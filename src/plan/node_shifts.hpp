// Shifts of equal nodes: a group that acts on ranks.
//
// Every node has the same number of neighbouring ranks. Digits x1, x2, … name it, and x1 counts neighbours: node = x1 +
// x2 f1 + x3 f1 f2 + … A shift adds to each digit, modulo its factor. A rank keeps its place in its node. Digits that
// are fixed are not shifted. Shifts form a group, and no shift but that by zero leaves a node where it is. So the ranks
// of the nodes whose shifted digits are all zero stand for all: each other rank is the image of one of these, by one
// shift.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plait {

struct NodeDigit {
  int factor = 1;
  bool is_fixed = false;

  friend bool operator==(const NodeDigit&, const NodeDigit&) = default;
};

class NodeShifts {
 public:
  // Throws kInvalidArgument unless the factors' product is a number of nodes that divides that of the ranks.
  NodeShifts(int ranks, std::vector<NodeDigit> digits);

  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return nodes_; }
  int ranks_per_node() const { return ranks_per_node_; }
  // The number of shifts: of the ranks that one stands for.
  int shifts() const { return shifts_; }
  const std::vector<NodeDigit>& digits() const { return digits_; }

  int node_of(int rank) const { return node_of_[static_cast<size_t>(rank)]; }
  int representative_node(int node) const { return representative_[static_cast<size_t>(node)]; }
  int representative(int rank) const { return rank + (representative_node(node_of(rank)) - node_of(rank)) * each(); }
  bool is_representative(int rank) const { return representative_node(node_of(rank)) == node_of(rank); }

  // The image of a node, or of a rank, under the shift that takes the representative of node `like` there; and its
  // image under the inverse of that shift.
  int shifted_node(int node, int like) const;
  int unshifted_node(int node, int like) const;
  int shifted(int rank, int like) const {
    return rank + (shifted_node(node_of(rank), node_of(like)) - node_of(rank)) * each();
  }
  int unshifted(int rank, int like) const {
    return rank + (unshifted_node(node_of(rank), node_of(like)) - node_of(rank)) * each();
  }

  // Digit i by which the shift to node `like` moves others: 0 for one that is fixed.
  int digit(int like, size_t i) const { return digits_[i].is_fixed ? 0 : digits_of(like)[i]; }

  // Nodes that the representative of node 0 is taken to by shifts which generate all: by one in one digit.
  std::vector<int> generators() const;

  // "shifts of 32 x 25 nodes", "shifts of 8 x (3) nodes": a fixed digit is in parentheses.
  std::string text() const;

 private:
  int each() const { return ranks_per_node_; }
  const uint16_t* digits_of(int node) const { return values_.data() + static_cast<size_t>(node) * digits_.size(); }

  std::vector<NodeDigit> digits_;
  std::vector<int> weights_;  // of each digit in the number of a node
  int nodes_ = 1, ranks_per_node_ = 1, shifts_ = 1;
  std::vector<uint16_t> values_;     // digits of each node
  std::vector<int> node_of_;         // of each rank
  std::vector<int> representative_;  // of each node
};

}  // namespace plait
