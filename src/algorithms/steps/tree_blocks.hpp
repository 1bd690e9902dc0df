// Gather and scatter along any tree of ranks: the blocks of whole subtrees go up or down.
#pragma once

#include "algorithms/steps/tree.hpp"

namespace plait {

// For plans of one chunk a block, with block r for rank r. If the blocks of a subtree are neighbours in the message,
// they move as one range, so that there are few operations, however many ranks there are.
//
// By load, a rank fetches blocks from the scratch of the rank that has them. By store, the rank that has blocks stores
// them in the scratch of the rank that needs them. Between nodes there are messages. Only the queues and the direction
// of `shape` count.
//
// Bytes: every edge carries the blocks of what is below it. Scratch: a slot for each block of its subtree on ranks that
// have children; one on leaves, or none if messages come and go. The root has as many as come by store or go by load.

// Brings every rank's input to the root's output.
void gather_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape);
// Brings its block of the root's input to every rank's output.
void scatter_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape);

}  // namespace plait
