// Awan et al. (AWA), broadcasts of large messages: what the algorithms take that their hierarchical broadcast composes.
// The slides print no formulas; these are the usual ones.
//
// bytes: of the message; ranks: p, root included. All results are seconds.
#pragma once

#include "model/closed_forms/costs.hpp"

namespace plait::closed_forms {

// ceil(log_k p) (k-1) (t_s + M/B) (AWA-14); a binomial tree has k = 2 (AWA-13). A rank serves its k-1 children of a
// level one after the other.
double tree_broadcast_seconds(double bytes, int ranks, int radix, const LinkCost& link);
// (ceil(log2 p) + p - 1) t_s + 2 M (p-1)/(pB): scatter along a binomial tree, then a ring (AWA-15).
double scatter_ring_broadcast_seconds(double bytes, int ranks, const LinkCost& link);
// 2 ceil(log2 p) t_s + 2 M (p-1)/(pB): the same with recursive doubling (AWA-16).
double scatter_doubling_broadcast_seconds(double bytes, int ranks, const LinkCost& link);
// (p - 2 + k) (t_s + M/(kB)): a chain, k parts under way (UEN-X1).
double chain_broadcast_seconds(double bytes, int ranks, int parts, const LinkCost& link);
// The k that makes it least, as a real number: sqrt((p-2) M / (B t_s)).
double best_chain_parts(double bytes, int ranks, const LinkCost& link);

}  // namespace plait::closed_forms
