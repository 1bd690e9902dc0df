// A step in which most is stored and a part is loaded: of every collective that moves data.
#pragma once

#include "algorithms/steps/arguments.hpp"

namespace plait {

// One step, as one_shot(store) and flat(store) have. But whoever has been stored everything has yet to combine it, or
// to copy it out, and then the links idle. So a part of each block is not stored: it lies in its owner's scratch from
// the beginning on, and the others fetch it while they combine what was stored. All_reduce of two ranks in four parts,
// of which rank 0 does
//
//     queue 0:  parts 0..2: input --> slots of r1         part 3: output <- input + scratch of r1
//     queue 1:  part 3: input --> own scratch              parts 0..2: output <- input + own slots
//
// A load over a link takes longer than a store, and costs the other direction as well: this is for the end of a long
// message, of which another plan carries the rest.
//
// Steps: 1. Bytes: as of those two, of k parts one by loads. Scratch: k-1 parts of what a rank gets of
// each of the others, and one of what it gives them (once, where all get the same).
void store_most_and_load_rest(PlanBuilder& builder, const AlgorithmArguments& arguments);

}  // namespace plait
