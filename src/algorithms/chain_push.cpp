// Chain by stores: from rank to rank, each storing into the memory of the next.
#include <algorithm>

#include "algorithms/arguments.hpp"
#include "algorithms/flat.hpp"

namespace plait {
namespace {

// While one waits for its stores to arrive, another stores. More lanes would not be on a GPU at once with as many
// strands as links want.
constexpr int kMostLanes = 2;

}  // namespace

// A broadcast begins at the root, a reduction ends there; every rank combines what came with its own input. Three
// ranks, root 0:
//
//     broadcast:  r0 --> scratch of r1 --> scratch of r2        reduce:  r1 --> scratch of r2 --> scratch of r0
//
// In `parts` parts that follow one another, in turn on one of two lanes a rank.
//
// Steps: p-1. Bytes: every link of the chain carries M once, one way: a GPU stores to one other only, which links like
//   better than stores to all. Scratch: M on every rank but the first.
// When: long messages on few GPUs; with p-2 parts and more the last rank is less than a slice of the message behind the
//   first. Not for a reduction of types that add up in wider ones: partial sums travel wide.
Plan chain_by_store(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const int ranks = arguments.ranks, parts = arguments.parts;
  const bool reduces = arguments.collective == Collective::kReduce;
  PlanBuilder builder = start_plan(algorithm, arguments, parts);
  std::vector<std::vector<LaneId>> lanes;
  for (int lane = 0; lane < std::min(parts, kMostLanes); ++lane) lanes.push_back(add_lanes(builder, arguments));
  const auto rank_at = [&](int position) { return (arguments.root + position + (reduces ? 1 : 0)) % ranks; };
  std::vector<Place> inbox(ranks);  // by position
  for (int i = 1; i < ranks; ++i) inbox[i] = builder.take_scratch(rank_at(i), parts);
  for (int part = 0; part < parts; ++part) {
    const auto& lane = lanes[part % lanes.size()];
    for (int i = 0; i < ranks; ++i) {
      const int rank = rank_at(i);
      const bool first = i == 0, last = i == ranks - 1;
      std::vector<Place> from, to;
      if (!first) from.push_back(slot_after(inbox[i], part));
      if (first || reduces) from.push_back(input_of(rank));
      if (last || !reduces) to.push_back(output_of(rank));
      if (!last) to.push_back(slot_after(inbox[i + 1], part));
      builder.fold(lane[rank], to, from, part);
      if (!last) builder.wait(builder.signal(lane[rank], lane[rank_at(i + 1)]));
    }
  }
  return builder.finish();
}

}  // namespace plait
