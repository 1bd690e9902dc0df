// The order in which a group performs its calls on GPUs: in turns. The calls of a turn take their steps together
// (Communicator::start_enqueue()).
//
// The call that was made first on a GPU is enqueued there first. Calls of different ranks of one communicator are an
// exception: they belong into one turn, since these ranks may have to wait for each other on the host.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/segment_identity.hpp"

namespace plait::c {

// The communicator, rank and GPU of a call in a group.
struct RankCall {
  int device = 0;
  int rank = 0;
  SegmentIdentity communicator;
};

// The places in `calls` of each turn's calls. In a turn each rank of a communicator has one call at most. A turn has
// all ranks of a communicator that still have calls, with two exceptions. GPUs may have calls of several communicators
// in orders that contradict each other. A GPU that several ranks share may have a call of another communicator between
// theirs.
std::vector<std::vector<size_t>> turns_of(std::span<const RankCall> calls);

}  // namespace plait::c
