// Moves of data straight from the rank that has it to the ranks that need it: gather, scatter, all_to_all, all_gather
// and broadcast.
#pragma once

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/partners.hpp"
#include "algorithms/steps/signals.hpp"

namespace plait {

// Returns the chunk that `to` gets from `from`, in a plan of one chunk a block.
int chunk_between(const AlgorithmArguments& arguments, int from, int to);

// Gather, scatter and all_to_all: every rank stores what others need into their scratch, and they copy it out.
//
// Steps: 1. Bytes: the giver stores each block once. Scratch: a slot of a block for each that comes.
void move_by_store(PlanBuilder& builder, const AlgorithmArguments& arguments, Stages& stages);

// All but reductions, by load, zero-copy: every rank copies what it needs out of the input of the rank that has it. All
// pairs are alike and independent. Rank r gets a block from rank p, and each acts in its queue for the other:
//
//     p:  signal "my buffer is ready" ---.                          .--> wait
//     r:                                  '--> wait, copy, signal --'
//
// If both give (all_gather, all_to_all): signal ready, wait, copy, signal done, wait. So a queue has at most one copy,
// with signals and waits before and after it, all of them with one queue of one peer. A rank copies its own block in a
// queue of its own, the last. Copy engines can perform all that, since they copy from one place to one place.
//
// Steps: 2. Bytes: every rank reads what it needs, once. No scratch.
void move_by_zero_copy_load(PlanBuilder& builder, const AlgorithmArguments& arguments);

// Reduce_scatter and all_reduce, by load, zero-copy. Rank q combines chunk q straight out of every rank's input, in its
// first queue, which does nothing else. In all_reduce all others then copy the chunk out of the output of rank q, each
// in its queue for that rank:
//
//     q:  "my input is ready", wait for all, reduce, signal ---.                          .--> wait, of the queue for r
//     r:                           queue for q:                '--> wait, copy, signal --'
//
// It also works in place: only rank q reads chunk q of an input, and no rank overwrites it before rank q has signalled
// that its reduce is done.
//
// Steps: 2 of reduce_scatter, 3 of all_reduce. Bytes: every rank reads p-1 chunks, in all_reduce twice. No scratch.
void combine_by_zero_copy_load(PlanBuilder& builder, const AlgorithmArguments& arguments);

}  // namespace plait
