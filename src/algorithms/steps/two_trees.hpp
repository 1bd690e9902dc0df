// The two trees of a double binary tree (NVG-30).
#pragma once

#include <vector>

#include "algorithms/steps/tree.hpp"

namespace plait {

// An inner node of one is a leaf of the other (Sanders, Speck, Träff 2009). Both are in order, from left to right, as
// the picture in double_binary_tree.cpp shows. Inner nodes have odd positions, counted from 0, whatever the number of
// members. Those of the second tree have even ones: its positions are shifted by one if there are an odd number of
// members, else they are counted from the end.
//
// Makes them over `order`, of at least one member, in trees of so many. Depth: floor(log2 of the number in order).
std::vector<Tree> two_trees(std::vector<int> order, int members);
// The same below a root that is not in order. It stands above both, which is one step more.
std::vector<Tree> two_trees_below(int root, std::vector<int> order, int members);
// The positions of the roots of two_trees() in order of `count`. They differ if there are at least two.
std::vector<int> roots_of_two_trees(int count);

}  // namespace plait
