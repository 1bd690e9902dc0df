// Proves a folded plan right, by the ranks that stand for all.
#pragma once

#include "plan/fold.hpp"
#include "plan/fold_action.hpp"
#include "plan/verifier.hpp"

namespace plait {

// The plan has to be one whose fold compared it by `action`. Then every rank's operations, and the collective's demands
// on it, are the images of those of a rank that is there. Executes these (folded_view.hpp) by the rules of verify(), so
// that a plan passes if and only if the whole would. Returns its steps and whether it synchronizes; nothing else is in
// the report. Throws NotSymmetric where nodes or buffers are not invariant, and kInvalidPlan and PlanTooLarge as
// verify() does.
PlanReport prove(const FoldedPlan& folded, const FoldAction& action);

}  // namespace plait
