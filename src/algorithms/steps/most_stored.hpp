// A step in which most data is stored and a part is loaded, for every collective that moves data.
#pragma once

#include "algorithms/steps/arguments.hpp"

namespace plait {

// One step, as one_shot(store) and flat(store) have. In those, a rank that has been sent everything still has to
// combine it, or to copy it out, and the links are idle meanwhile. So a part of each block is not stored here. It lies
// in its owner's scratch from the beginning, and the others fetch it while they combine what was stored. In an
// all_reduce of two ranks in four parts, rank 0 does this:
//
//     queue 0:  parts 0..2: input --> slots of r1         part 3: output <- input + scratch of r1
//     queue 1:  part 3: input --> own scratch              parts 0..2: output <- input + own slots
//
// A load over a link takes longer than a store, and costs the other direction as well. So this serves for the end of a
// long message, whose rest another plan carries.
//
// Steps: 1. Bytes: the same as those two; one of k parts is loaded. Scratch: k-1 parts of what a rank gets from each of
// the others, and one part of what it gives to them (once, if all get the same).
void store_most_and_load_rest(PlanBuilder& builder, const AlgorithmArguments& arguments);

}  // namespace plait
