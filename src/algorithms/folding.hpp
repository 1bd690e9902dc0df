// Folded plans of algorithms (plan/fold.hpp), and the shifts under which they are likely to look alike.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"
#include "plan/fold.hpp"
#include "plan/verifier.hpp"

namespace plait {

// Makes the plan, and keeps the operations of those ranks that stand for others. Takes the time of the whole plan and
// the memory of these few. Throws NotSymmetric if the plan is not invariant, else what `make` throws.
FoldedPlan make_folded(const Algorithm& algorithm, AlgorithmArguments arguments, const NodeShifts& shifts);

// Proves a plan that make_folded() made of these arguments, which takes the time of making it again and a proof of the
// ranks that are there. Throws what prove() does (plan/fold_proof.hpp).
PlanReport prove_folded(const Algorithm& algorithm, AlgorithmArguments arguments, const FoldedPlan& folded);

// Guesses, the most promising first, for ranks that are spread evenly over `nodes` nodes in racks of `rack_nodes`; 0:
// without racks. A level that joins nodes by a ring or an exchange looks alike if all of them move on by one. One that
// halves or doubles looks alike if pairs of them, pairs of pairs, … change places. A tree and leaders do not look
// alike. Where such a level goes beyond racks, these move as a whole. Whether a guess is right, the fold finds out.
std::vector<std::vector<NodeDigit>> likely_shifts(const AlgorithmArguments& arguments, int nodes, int rack_nodes);

}  // namespace plait
