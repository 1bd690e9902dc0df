// The two trees of a double binary tree (NVG-30).
#pragma once

#include <vector>

#include "algorithms/steps/tree.hpp"

namespace plait {

// In a binary tree half of the members are leaves, and a leaf only receives or only sends. So there are two trees, and
// an inner node of one is a leaf of the other. Seven members in order, numbered from one on, and the second tree,
// shifted by one:
//
//              4                          5              In order, inner nodes have even numbers, whatever the number
//          /       \                  /       \          of members. Those of the other tree have odd ones: its
//        2           6              3           7        numbers are shifted by one if there are an odd number of
//      /   \       /   \          /   \       /   \      members, else they are counted from the end. (Sanders,
//     1     3     5     7        2     4     6     1     Speck, Träff 2009.)
//
// Makes them over `order`, of at least one member, in trees of so many. Depth: floor(log2 of the number in order).
std::vector<Tree> two_trees(std::vector<int> order, int members);
// The same below a root that is not in order. It stands above both, which is one step more.
std::vector<Tree> two_trees_below(int root, std::vector<int> order, int members);
// The positions of the roots of two_trees() in order of `count`. They differ if there are at least two.
std::vector<int> roots_of_two_trees(int count);

}  // namespace plait
