// Calls of one kind that follow each other, as benchmarks time them.
//
// A rank begins a call once all of its queues are done with the one before. Nobody waits for other ranks: a root may be
// calls ahead of those who take its data, and a loop of broadcasts takes less than as many single ones.
#pragma once

#include "model/simulator/program.hpp"

namespace plait {

// The program of `calls` calls of a plan, each of which costs what a call does (Costs::launch_us). `once` is the
// program of one call that compile() made.
SimulatorProgram in_a_row(const SimulatorProgram& once, int calls);

}  // namespace plait
