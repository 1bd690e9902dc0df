// Composes the levels of a broadcast or a reduce: compose() of composition.hpp for collectives that have a root.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// A broadcast comes to the leaders of the units of the last level, and from them to those of the level before (AWA-11).
// Each level is a broadcast by its own algorithm among the leaders; what comes to a leader is passed on at once where
// the level before is a tree, and once all of a part is there where it is a scatter. The root leads its units, so a
// level enters no unit twice, whichever the root is. Parts of the message follow one another (UEN-X1).
Plan compose_broadcast(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                       const std::vector<Level>& levels, int parts);

// A reduce goes the other way: up one tree, which consists of the trees of all levels. A level of several trees cuts
// the message into as many pieces. Each piece goes up a tree of its own to the root. So a rank combines what comes from
// all levels in one reduce, and the root collects nothing that was summed elsewhere.
Plan compose_reduce(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels,
                    int parts);

}  // namespace plait
