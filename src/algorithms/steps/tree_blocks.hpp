// Gather and scatter along any tree of ranks: what goes up or down are the blocks of whole subtrees.
#pragma once

#include "algorithms/steps/tree.hpp"

namespace plait {

// Of a plan of one chunk a block, block r for rank r. Where a subtree's blocks are neighbours in the message, they move
// as one range, so that there are few operations, however many ranks there are.
//
// By load, who needs blocks fetches them from scratch of who has them; by store, who has them stores them in scratch of
// who needs them. Between nodes there are messages. Of `shape`, queues and direction count.
//
// Bytes: every edge carries the blocks of what is below it. Scratch: a slot for each block of its subtree on ranks that
// have children; on leaves one, or none where messages come and go. On the root as many as come by store or go by load.

// Every rank's input comes to the root's output.
void gather_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape);
// Every rank's output gets its block of the root's input.
void scatter_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape);

}  // namespace plait
