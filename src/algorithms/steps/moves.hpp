// What every rank gets straight from whoever has it: of gather, scatter, all_to_all, all_gather and broadcast.
#pragma once

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/signals.hpp"

namespace plait {

// Chunk, in a plan of one chunk a block, that `to` gets of `from`.
int chunk_between(const AlgorithmArguments& arguments, int from, int to);

// Gather, scatter and all_to_all: every rank stores what others need into scratch of theirs, who copy it out.
//
// Steps: 1. Bytes: who gives stores each block once. Scratch: a slot of a block for each that comes.
void move_by_store(PlanBuilder& builder, const AlgorithmArguments& arguments, Stages& stages);

// All but reductions, by load, zero-copy: every rank copies what it needs out of the input of the rank that has it.
// All pairs are alike and independent. Rank r takes from rank p, each in its queue for the other:
//
//     p:  signal "my buffer is ready" ---.                          .--> wait
//     r:                                  '--> wait, copy, signal --'
//
// Where both give (all_gather, all_to_all): signal ready, wait, copy, signal done, wait. So a queue has one copy at
// most, signals and waits before and behind it, all of them with one queue of one peer. What a rank has for itself is
// copied in a queue of its own, the last. Copy engines can perform all that, since they copy from one place to one
// place.
//
// Steps: 2. Bytes: every rank reads what it needs, once. No scratch.
void move_by_zero_copy_load(PlanBuilder& builder, const AlgorithmArguments& arguments);

// Reduce_scatter and all_reduce, by load, zero-copy. Chunk q is combined by rank q, straight out of everybody's input,
// in a queue that does nothing else, the first; of all_reduce, all others then copy it out of the output of rank q,
// each in its queue for that one:
//
//     q:  "my input is ready", wait for all, reduce, signal ---.                          .--> wait, of the queue for r
//     r:                           queue for q:                '--> wait, copy, signal --'
//
// In place too: chunk q of an input is read by rank q alone, and nobody writes over it before that has told of its
// reduce.
//
// Steps: 2 of reduce_scatter, 3 of all_reduce. Bytes: every rank reads p-1 chunks, in all_reduce twice. No scratch.
void combine_by_zero_copy_load(PlanBuilder& builder, const AlgorithmArguments& arguments);

}  // namespace plait
