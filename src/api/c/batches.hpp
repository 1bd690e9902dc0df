// The order in which a group performs its calls on GPUs: in turns, the calls of one of which take their steps together
// (Communicator::start_enqueue()).
//
// What was called first on a GPU is enqueued there first, but for calls of different ranks of one communicator. These
// belong into one turn: its ranks may have to wait for each other on the host, and one of another turn does not come in
// time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/segment_identity.hpp"

namespace plait::c {

// Names the rank that makes a call of a group.
struct RankCall {
  int device = 0;
  int rank = 0;
  SegmentIdentity communicator;
};

// The places in `calls` of each turn's calls. In a turn each rank of a communicator has one call at most. A turn has
// all ranks of a communicator that still have calls, unless GPUs have calls of several communicators in orders that
// contradict each other, or one that several of its ranks share has a call of another communicator between theirs.
std::vector<std::vector<size_t>> turns_of(std::span<const RankCall> calls);

}  // namespace plait::c
