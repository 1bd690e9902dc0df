// The first half of a broadcast of long messages: the root scatters its message, so that every rank has a piece that an
// all-gather passes on.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

// Scatters the root's message of p chunks along a binomial tree: chunk r goes to the output of rank r. Returns where
// the ranks have their chunks. On several nodes one tree joins the nodes, and others the ranks of each (tree_over()).
// By load, a rank fetches the chunks of its subtree from its parent; by store, the parent stores them.
//
// Steps: floor(log2 p). Scratch of a rank: the chunks of its subtree, its own among them; none at leaves that load. Of
// the root, by load: what the other ranks of its node and those below them get; by store: none.
HeldByRank scatter_message(PlanBuilder& builder, Carrier& carrier, const Algorithm& algorithm,
                           const AlgorithmArguments& arguments, const std::vector<QueueId>& queues);

// Returns the candidates of a scatter followed by an all-gather: both directions, the machine's favourite first. With
// fewer than four ranks there are none, because a chain has fewer steps and the root sends less.
std::vector<AlgorithmArguments> scattered_candidates(const AlgorithmArguments& machine);

}  // namespace plait
