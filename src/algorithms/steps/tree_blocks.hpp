// Gather and scatter along any tree: the blocks of whole subtrees go up or down.
#pragma once

#include "algorithms/steps/tree.hpp"

namespace plait {

// Member x of the tree has block x, which is shape.range(x). If the blocks of a subtree are neighbours in the message,
// they move as one range, so that there are few operations, however many members there are.
//
// By load, a member fetches blocks from the scratch of the one that has them. By store, the one that has blocks stores
// them in the scratch of the one that needs them. Between nodes there are messages.
//
// Bytes: every edge carries the blocks of what is below it. Scratch: that of the blocks of its subtree on members that
// have children; of one on leaves, or of none if messages come and go. The root has as much as comes by store or goes
// by load.

// Brings every rank's input to the root's output.
void gather_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape);
// Brings its block of the root's input to every rank's output.
void scatter_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape);
// Brings its block of the data at `source`, a place of the root, to every other member, where it wants it first of all.
void scatter_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape, Held source,
                   const Finish& finish);

}  // namespace plait
